"""SGLang's engine-info wire: publish a session's weights dictionary, read it back to the last digit.

Source of the behaviour: sglang 0.5.23, srt/entrypoints/engine_info_bootstrap_server.py (FastAPI), and the proxy of the
serving engine in http_server.py, whose paths the real loader calls.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec

from controlplane.domain.errors import Refused

from .reading import decoded, numeric, short_text
from .replies import PLAIN_JSON, STATUS_OF_CODE, Reply, detail

UInt64 = Annotated[int, msgspec.Meta(ge=0)]
MAX_UINT64 = 2**64 - 1
MAX_RANK = 65_535
MAX_SESSION = 300


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


def read_rank_query(query: bytes) -> int:
    """`?rank=N` as pydantic reads an integer: `1.0`, `+1`, spaces and underscores pass. Raises BadRank."""
    rank: str | None = None
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="replace", max_num_fields=100):
        if name == "rank":
            rank = value
    if rank is None:
        raise BadRank(
            detail(422, [{"type": "missing", "loc": ["query", "rank"], "msg": "Field required", "input": None}])
        )
    whole, dot, zeros = rank.strip().partition(".")
    try:
        if dot and zeros.strip("0"):
            raise ValueError
        number = int(whole)
    except ValueError:
        message = "Input should be a valid integer, unable to parse string as an integer"
        shown = rank[:100]
        raise BadRank(
            detail(422, [{"type": "int_parsing", "loc": ["query", "rank"], "msg": message, "input": shown}])
        ) from None
    if number < 0:
        raise BadRank(detail(400, "Invalid rank parameter"))
    return number


class BadRank(Exception):
    """A look-up without a usable rank; carries the whole answer, FastAPI's own where it has one."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body)
        self.reply = reply


def no_info(rank: int) -> Reply:
    return detail(404, f"No transfer engine info for rank {rank}")


def info_answer(rank: int, session: str, compressed: bytes) -> Reply:
    """The look-up's answer around the stored dictionary, byte for byte."""
    head = b'{"rank":%d,"remote_instance_transfer_engine_info":[%b,' % (rank, msgspec.json.encode(session))
    return Reply(200, head + zlib.decompress(compressed) + b"]}", PLAIN_JSON)


def refusal(refused: Refused) -> Reply:
    return detail(STATUS_OF_CODE.get(refused.code, 400), refused.sentence)
