"""What one listener remembers of raw requests: whole answers of repeated reads, and the heads of repeated writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from controlplane.protocol.replies import Reply

from .request import Head
from .tally import Tally

MAX_REQUEST = 1024
MAX_ENTRIES = 65_536
MAX_HEADS = 8192
MAX_ANSWER_BYTES = 128 * 2**20
STATUS = {status.value: f"{status.value} {status.phrase}".encode() for status in HTTPStatus}
CLOSE = b"connection: close"
SPECIAL = (b"transfer-encoding", b"expect:", b"upgrade:")


@dataclass(frozen=True, slots=True)
class KnownHead:
    """A request head that httptools has read before, byte for byte: what it came to, and who takes its body."""

    head: Head
    length: int
    begin: Callable[[Any, bytes], Any]
    close: bool


class Memo:
    """Entries of `answers` belong to an instance, which drops them when it changes; heads mean the same for ever,
    since the instance is looked up again each time."""

    def __init__(self, deadline: Callable[[], float], tally: Tally, *, keeps_answers: bool = True) -> None:
        self.tally = tally
        # Of those who may not read without a token, nothing is kept: the same bytes may be worth another answer soon.
        self.keeps_answers = keeps_answers
        self.answers: dict[bytes, bytes] = {}
        self.heads: dict[bytes, KnownHead] = {}
        self.held = 0
        # The monotonic time past which nothing may be answered: the local end of the lease.
        self.deadline = deadline

    def drop(self, request: bytes) -> None:
        answer = self.answers.pop(request, None)
        if answer is not None:
            self.held -= len(answer)

    def remember(self, request: bytes, answer: bytes) -> bool:
        """Answer these bytes with those. One request in one read, kept alive, nothing after it; bounded."""
        if self.held > MAX_ANSWER_BYTES or len(self.answers) >= MAX_ENTRIES or len(request) > MAX_REQUEST:
            return False
        if not self.keeps_answers or request.count(b"\r\n\r\n") != 1:
            return False
        if not _plain(request) or CLOSE in request.lower():
            return False
        self.drop(request)
        self.answers[request] = answer
        self.held += len(answer)
        return True

    def learn(self, raw_head: bytes, head: Head, length: int, begin: Callable[[Any, bytes], Any]) -> None:
        """Hand bodies of `length` behind these bytes straight to `begin`."""
        if len(raw_head) <= MAX_REQUEST and _plain(raw_head + b"\r\n"):
            if len(self.heads) >= MAX_HEADS:
                self.heads.clear()
            self.heads[raw_head] = KnownHead(head, length, begin, close=CLOSE in raw_head.lower())


def raw(reply: Reply, *, close: bool = False, head_only: bool = False) -> bytes:
    """The answer as it goes over the wire."""
    more = reply.headers
    if close:
        more += b"connection: close\r\n"
    if reply.status == 503:
        more += b"retry-after: 1\r\n"
    elif reply.status == 401:
        more += b"www-authenticate: Bearer\r\n"
    body = b"" if head_only else reply.body
    return b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b" % (
        STATUS[reply.status],
        reply.content_type,
        len(reply.body),
        more,
        body,
    )


def _plain(head: bytes) -> bool:
    lower = head.lower()
    return b" http/1.1\r\n" in lower and not any(mark in lower for mark in SPECIAL)
