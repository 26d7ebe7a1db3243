"""What can go wrong for a worker, by kind: each error is a sentence, and knows which HTTP status would say it to a client."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """One thing wrong with what was sent: a JSON pointer into the body, and the server's word for what is wrong."""

    pointer: str
    code: str


class WorkerError(Exception):
    """Base of all errors of this package. `sentence` names what is wrong and what to do; `status` is HTTP's word for it."""

    status = 500

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class BadAddress(WorkerError):
    """What was given for an address is none, or none that can be meant; nobody was asked, no name was looked up."""

    status = 400


class NotAdvertisable(BadAddress):
    """No address of this host, or none that the others could reach, was found to be told to the control plane."""

    status = 500


class Unreachable(WorkerError):
    """Nobody answered at `where` (host:port), in time or at all; `reason` is why, as the end of a sentence."""

    status = 503

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where} cannot be asked: {reason}")
        self.where = where
        self.reason = reason


class TimedOut(Unreachable):
    """No whole answer within the bound."""


class BrokenOff(Unreachable):
    """The connection ended before the answer did."""


class Garbled(WorkerError):
    """Whoever answers at `where` does not speak as it should."""

    status = 502

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where} answered what cannot be read: {what}")
        self.where = where


class TooLarge(WorkerError):
    """An answer, or what was to be sent, is larger than its limit."""

    status = 413


class Refusal(WorkerError):
    """The server at `where` said no: `status`, its own sentence and, where it has them, its stable `code` and what it points
    at in the body."""

    def __init__(
        self,
        where: str,
        status: int,
        said: str,
        code: str = "",
        retry_after: float | None = None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        super().__init__(f"{where} answered {status}: {said}")
        self.where = where
        self.status = status
        self.said = said
        self.code = code
        self.retry_after = retry_after
        self.faults = faults


class NotAllowed(Refusal):
    """401 or 403: the token is missing, wrong, of somebody else, or the source network is not allowed."""


class NotFound(Refusal):
    """404: no such instance, rank, room or path."""


class Disagreement(Refusal):
    """409: the pair cannot work, or two ranks of one launch say different things."""


class NotReady(Refusal):
    """503: not all ranks have registered, or the instance changes just now. Ask again in a moment."""


class Incompatible(WorkerError):
    """This decode cannot take KV from that prefill; found out here, from the topology that it told."""

    status = 409


class BadDecode(WorkerError):
    """A decode described itself in a way that means nothing; the sentence names the field."""

    status = 400


class BadRank(WorkerError):
    """A rank that no directory would take; the sentence names the field."""

    status = 400


class RoomInUse(WorkerError):
    """A request came for a room that another request is using."""

    status = 409


class NotBound(WorkerError):
    """No rank of the prefill said in time that it holds the room."""

    status = 504


class Overloaded(WorkerError):
    """Too many wait already; nothing was sent."""

    status = 503


class Closed(WorkerError):
    """The client was closed, or belongs to a process that this one was forked from."""


BY_STATUS: dict[int, type[Refusal]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Disagreement,
    503: NotReady,
}


def refused(
    where: str,
    status: int,
    said: str,
    code: str = "",
    retry_after: float | None = None,
    faults: tuple[Fault, ...] = (),
) -> Refusal:
    """The error of that status.

    >>> type(refused("a:1", 403, "no")).__name__, refused("a:1", 403, "no").sentence
    ('NotAllowed', 'a:1 answered 403: no')
    """
    return BY_STATUS.get(status, Refusal)(where, status, said, code, retry_after, faults)
