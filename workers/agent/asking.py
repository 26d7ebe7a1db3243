"""A request as routers send it to SGLang's `/generate`, read and checked; what is wrong with it is a sentence."""

from __future__ import annotations

from typing import Any

import msgspec

from workers.sdk import Place, WorkerError, requested_place

MOST_TOKENS = 4096


class BadRequest(WorkerError):
    """What was asked is not what these agents can do."""

    status = 400


class Failed(WorkerError):
    """The request ended without its tokens; `status` says whose fault it was, the sentence why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Sampling(msgspec.Struct):
    max_new_tokens: int = 16


class Body(msgspec.Struct):
    input_ids: list[int]
    bootstrap_room: int
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    sampling_params: Sampling = msgspec.field(default_factory=Sampling)
    rid: str = ""
    stream: bool = False


class Request(msgspec.Struct, frozen=True):
    """`place` is the bootstrap server that knows the prefill; a prefill itself has no need of it."""

    prompt: tuple[int, ...]
    room: int
    count: int
    place: Place | None
    rid: str
    stream: bool


BODY = msgspec.json.Decoder(Body)


def read(raw: bytes, *, vocabulary: int, needs_place: bool) -> Request:
    """Raises BadRequest, and BadAddress for a bootstrap address that cannot be meant.

    >>> read(b'{"input_ids": [1, 2], "bootstrap_room": 7}', vocabulary=512, needs_place=False).room
    7
    """
    try:
        body = BODY.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadRequest(f"the body is not a request of /generate: {problem}") from None
    if not 1 <= len(body.input_ids) <= MOST_TOKENS:
        raise BadRequest(f"input_ids must have between 1 and {MOST_TOKENS} tokens, not {len(body.input_ids)}")
    if strange := next((token for token in body.input_ids if not 0 <= token < vocabulary), None):
        raise BadRequest(f"input_ids has {strange}, the vocabulary has {vocabulary} tokens")
    if not 1 <= body.sampling_params.max_new_tokens <= MOST_TOKENS:
        raise BadRequest(f"max_new_tokens must be between 1 and {MOST_TOKENS}")
    if not 0 < body.bootstrap_room < 2**63:
        raise BadRequest(
            "bootstrap_room must be between 1 and 2^63 - 1: 0 cannot be told from a room that is not written yet"
        )
    place = requested_place(body.bootstrap_host, body.bootstrap_port) if needs_place else None
    return Request(
        tuple(body.input_ids),
        body.bootstrap_room,
        body.sampling_params.max_new_tokens,
        place,
        body.rid[:200],
        body.stream,
    )


def answer(request: Request, tokens: list[int], **more: Any) -> dict[str, Any]:
    """As SGLang answers, as far as its clients read it."""
    meta = {
        "id": request.rid,
        "prompt_tokens": len(request.prompt),
        "completion_tokens": len(tokens),
        "finish_reason": {"type": "length", "length": len(tokens)},
        **more,
    }
    return {"text": " ".join(map(str, tokens)), "output_ids": tokens, "meta_info": meta}
