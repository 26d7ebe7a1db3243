"""What goes wrong when KV is moved, and whether its memory may be used again."""

from __future__ import annotations


class TransferError(Exception):
    """Base of all errors of this package; the text is a sentence that can be shown to a person."""


class TransferFailed(TransferError):
    """A call did not move its bytes.

    `settled`: nobody reads or writes the memory that the call named any more, here or at the peer. When it is False the rest of
    the batch may still be under way (a return of −1 is not quiescence), and the memory stays in quarantine until the engine that
    may write into it is reset.
    """

    def __init__(self, sentence: str, *, settled: bool) -> None:
        super().__init__(sentence)
        self.settled = settled


class PeerSilent(TransferFailed):
    """The peer's engine refuses or does not answer; nothing was begun."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, settled=True)


class BadBlocks(TransferError):
    """The call names memory that is not registered, or that no batch may name. Nothing was begun."""


class EngineLost(TransferFailed):
    """This side's engine process ended, or was ended because it did not keep its time: `reset` starts another."""


class NotInstalled(TransferError):
    """The backend's library is missing or cannot be loaded; the text says what to install."""


class RoomTaken(TransferError):
    """The room is in use on this rank already: a room names one request."""


class NothingFree(TransferError):
    """No pages or slots are free; some may be in quarantine."""
