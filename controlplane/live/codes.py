"""Why a socket is closed, as a code for clients and a sentence for people. A client may rely on these codes."""

from __future__ import annotations

from enum import IntEnum

LONGEST_REASON_BYTES = 123


class Code(IntEnum):
    """1012 comes from the server itself, when it restarts: connect again, with the last cursor."""

    BROKEN = 1011
    """Something failed here: connect again, with the last cursor."""

    TRY_LATER = 1013
    """The database does not answer, so nobody can be let in or told anything: connect again in a while."""

    BAD_REQUEST = 4400
    """What was asked for makes no sense; asking again will not help."""

    SIGNED_OUT = 4401
    """Nobody we know, or not any more: signed out, session over, token revoked or expired."""

    NOT_ALLOWED = 4403
    """Known, but without the right to read this; or a page of another site."""

    NOT_FOUND = 4404
    """There is no such stream."""

    TOO_SLOW = 4408
    """The client did not take what was sent: connect again, with the last cursor."""

    TOO_MANY = 4429
    """As many sockets are open as are allowed: connect again in a while."""


RESUME = frozenset({Code.BROKEN, Code.TRY_LATER, Code.TOO_SLOW, Code.TOO_MANY})
"""After these, and after a connection that just broke, a client connects again by itself."""


class Closed(Exception):
    """The socket is to be closed with this code, for the reason in `sentence`."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence

    @property
    def reason(self) -> str:
        """The sentence as far as a close frame holds it."""
        return self.sentence.encode()[:LONGEST_REASON_BYTES].decode(errors="ignore")
