"""Why ranks could not agree: sentences that say which rank, and what to do."""

from __future__ import annotations


class NotAgreed(Exception):
    """The ranks of a launch do not know which port to register at; `sentence` says why. Nobody may guess one."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class NotInitialised(NotAgreed):
    """There is no process group yet."""


class NobodyTold(NotAgreed):
    """The leader, or the way to it, did not answer in time."""
