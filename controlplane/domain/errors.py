"""What the domain says when it will not do something: a sentence and a short code."""

from __future__ import annotations


class Refused(Exception):
    """A request that cannot be granted; `sentence` says why, `code` is stable for machines."""

    def __init__(self, sentence: str, *, code: str = "refused") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
