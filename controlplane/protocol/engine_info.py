"""SGLang's engine-info wire: publish a session's weights dictionary, read it back to the last digit.

Source of the behaviour: sglang 0.5.23, srt/entrypoints/engine_info_bootstrap_server.py (FastAPI), and the proxy of the
serving engine in http_server.py, whose paths the real loader calls.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl

import msgspec

from controlplane.domain.errors import Refused

from .reading import decoded, numeric, short_text
from .replies import PLAIN_JSON, STATUS_OF_CODE, Reply, detail

UInt64 = Annotated[int, msgspec.Meta(ge=0)]
MAX_UINT64 = 2**64 - 1
MAX_RANK = 65_535
MAX_SESSION = 300
MAX_ECHO = 10_000


class Info(msgspec.Struct):
    session_id: str
    weights_info_dict: dict[str, tuple[UInt64, UInt64, UInt64]]


class PublishBody(msgspec.Struct):
    transfer_engine_info: Info
    tp_rank: int | str | None = None
    rank: int | str | None = None


PUBLISH = msgspec.json.Decoder(PublishBody)


@dataclass(frozen=True, slots=True)
class Publication:
    """One `PUT /register_transfer_engine_info`, checked. `compressed` is the compact dictionary under zlib."""

    rank: int
    old_style: bool
    session: str
    digest: str
    tensors: int
    total_bytes: int
    size_bytes: int
    compressed: bytes


def read_publication(body: bytes) -> Publication:
    """Parse, check and pack. Names stay as they are, numbers exact, zero-size entries kept. `rank` wins over `tp_rank`.

    A 57 MiB body holds the interpreter for a third of a second: large ones belong in another process.
    """
    b: PublishBody = decoded(PUBLISH, body, "PUT /register_transfer_engine_info")
    given = b.rank if b.rank is not None else b.tp_rank
    if given is None:
        raise Refused("rank (or the older tp_rank) is missing", code="malformed")
    rank = numeric(given, "rank" if b.rank is not None else "tp_rank", 0, MAX_RANK)
    session = short_text(b.transfer_engine_info.session_id, "session_id", MAX_SESSION)
    if not session:
        raise Refused("session_id is empty", code="malformed")
    weights = b.transfer_engine_info.weights_info_dict
    total = 0
    for name, (pointer, numel, element_size) in weights.items():
        if max(pointer, numel, element_size) > MAX_UINT64:
            raise Refused(f"weights_info_dict: {name[:100]!r} has a number beyond 64 bits", code="malformed")
        total += numel * element_size
    compact = msgspec.json.encode(weights)
    digest = hashlib.sha256(compact).hexdigest()
    return Publication(
        rank,
        b.rank is None,
        session,
        digest,
        len(weights),
        min(total, 2**63 - 1),
        len(compact),
        zlib.compress(compact, 1),
    )


class Unreadable(Refused):
    """Something FastAPI itself refuses before the server's own code runs; carries FastAPI's whole answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body.decode("utf-8", "replace")[:300], code="malformed")
        self.reply = reply


def check_body(body: bytes) -> None:
    """What FastAPI answers 422 before the server's code runs: no body, no JSON, no object.

    Unlike the original, a body need not say that it is JSON: `curl -d` does not, and the KV wire does not ask either.
    """
    # Nearly always. Whether a large one is valid JSON is found out when it is parsed.
    if body[:1] == b"{" and (len(body) > MAX_ECHO or _is_json(body)):
        return
    if not body:
        raise _unreadable({"type": "missing", "loc": ["body"], "msg": "Field required", "input": None})
    if len(body) > MAX_ECHO:
        raise _unreadable({"type": "dict_type", "loc": ["body"], "msg": "Input should be a valid dictionary"})
    try:
        given = json.loads(body)
    except json.JSONDecodeError as problem:
        where = {"type": "json_invalid", "loc": ["body", problem.pos], "msg": "JSON decode error"}
        raise _unreadable({**where, "input": {}, "ctx": {"error": problem.msg}}) from None
    except (ValueError, RecursionError):
        # No UTF-8, nested too deeply, or a number of more digits than Python reads.
        raise Refused("the body is not readable as JSON", code="malformed") from None
    if not isinstance(given, dict):
        what = {"type": "dict_type", "loc": ["body"], "msg": "Input should be a valid dictionary"}
        try:
            raise _unreadable({**what, "input": given})
        except UnicodeEncodeError:
            # Half of a surrogate pair is JSON, but no text that could be sent back.
            raise _unreadable(what) from None


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _unreadable(problem: dict[str, Any]) -> Unreadable:
    return Unreadable(detail(422, [problem]))


def read_rank_query(query: bytes) -> int:
    """`?rank=N` as pydantic reads an integer: `1.0`, `+1`, spaces and underscores pass. Raises Unreadable."""
    rank: str | None = None
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="replace"):
        if name == "rank":
            rank = value
    if rank is None:
        raise _unreadable({"type": "missing", "loc": ["query", "rank"], "msg": "Field required", "input": None})
    whole, dot, zeros = rank.strip().partition(".")
    try:
        if dot and zeros.strip("0"):
            raise ValueError
        number = int(whole)
    except ValueError:
        message = "Input should be a valid integer, unable to parse string as an integer"
        where = {"type": "int_parsing", "loc": ["query", "rank"]}
        raise _unreadable({**where, "msg": message, "input": rank[:100]}) from None
    if number < 0:
        raise Unreadable(detail(400, "Invalid rank parameter"))
    return number


def no_info(rank: int) -> Reply:
    return detail(404, f"No transfer engine info for rank {rank}")


def info_answer(rank: int, session: str, compressed: bytes) -> Reply:
    """The look-up's answer around the stored dictionary, byte for byte."""
    head = b'{"rank":%d,"remote_instance_transfer_engine_info":[%b,' % (rank, msgspec.json.encode(session))
    return Reply(200, head + zlib.decompress(compressed) + b"]}", PLAIN_JSON)


def refusal(refused: Refused) -> Reply:
    return detail(STATUS_OF_CODE.get(refused.code, 400), refused.sentence)
