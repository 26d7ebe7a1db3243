"""An answer on the wire, and the few that never change."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.domain.errors import Refused

TEXT = b"text/plain; charset=utf-8"
JSON = b"application/json; charset=utf-8"
PLAIN_JSON = b"application/json"

STATUS_OF_CODE = {
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "timeout": 408,
    "conflict": 409,
    "too_large": 413,
    "internal": 500,
    "unavailable": 503,
}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: bytes = TEXT
    close: bool = False
    # More header lines, each with its line end.
    headers: bytes = b""


OK = Reply(200, b"OK")
KV_NOT_FOUND = Reply(404, b"404: Not Found")
MISSING_INPUTS = Reply(400, b"Missing inputs for bootstrap server.")
ENGINE_NOT_FOUND = Reply(404, b'{"detail":"Not Found"}', PLAIN_JSON)


def kv_method(allowed: Iterable[str], *, route: bool) -> Reply:
    """405 as aiohttp says it; `/route` has a text of its own under a JSON type, as in SGLang."""
    allow = f"allow: {', '.join(allowed)}\r\n".encode()
    if route:
        return Reply(405, b"Method not allowed", JSON, headers=allow)
    return Reply(405, b"405: Method Not Allowed", headers=allow)


def engine_method(allowed: str) -> Reply:
    return Reply(405, b'{"detail":"Method Not Allowed"}', PLAIN_JSON, headers=f"allow: {allowed}\r\n".encode())


def text(status: int, sentence: str, *, close: bool = False) -> Reply:
    return Reply(status, sentence.encode(), TEXT, close)


def refusal(refused: Refused) -> Reply:
    """The KV wire's way to say no: the sentence as text. Unknown codes are the caller's fault: 400."""
    return text(STATUS_OF_CODE.get(refused.code, 400), refused.sentence)


def detail(status: int, sentence: Any, *, close: bool = False) -> Reply:
    """The engine-info wire's way (FastAPI): `{"detail": …}`, compact."""
    return Reply(status, msgspec.json.encode({"detail": sentence}), PLAIN_JSON, close)


def spaced_json(value: Any) -> bytes:
    """JSON as aiohttp writes it: `", "` and `": "`, ASCII."""
    return json.dumps(value).encode()
