"""What can go wrong when weights are pulled, and whether the same seed may be asked again."""

from __future__ import annotations


class WeightsError(Exception):
    """Base of all errors of this package. `sentence` names what is wrong and what to do."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Unfit(WeightsError):
    """What a seed publishes does not belong into this module: asking it again changes nothing until it publishes anew."""


class Damaged(WeightsError):
    """Bytes came that are not those which the seed promised: it holds other weights by now, or they were harmed on the way."""


class Moved(WeightsError):
    """The seed publishes another session than the one that was read from: what came is not taken for its weights."""


class NoSeed(WeightsError):
    """None of the seeds had the whole; the sentence says why of each, and how much is there."""
