"""What is published of an instance's weights: how many of its ranks, who is missing, and why two claim one rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Run = tuple[int, int]
"""Consecutive ranks, the first and the last of them."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """`expected`: how many ranks there should be. `known`: its launch is registered and says so; otherwise it is one more
    than the highest rank that published, and there may be others. `missing` holds the first runs of ranks that did not.
    """

    present: int
    expected: int
    known: bool
    missing: tuple[Run, ...] = ()
    beyond: int = 0
    """Ranks that published although the launch has no such rank."""

    @property
    def complete(self) -> bool:
        return self.present - self.beyond >= self.expected

    @property
    def sentence(self) -> str:
        """
        >>> Coverage(15, 16, True, ((11, 11),)).sentence
        '15 of 16 ranks, missing 11'
        >>> Coverage(1, 8, True, ((1, 7),)).sentence, Coverage(3, 3, False).sentence
        ('1 of 8 ranks, missing 1–7', '3 of at least 3 ranks')
        """
        least = "" if self.known else "at least "
        said = f"{self.present - self.beyond} of {least}{self.expected} rank{'' if self.expected == 1 else 's'}"
        return f"{said}, missing {self.named}" if self.missing else said

    @property
    def named(self) -> str:
        """The ranks that are missing, the first runs of them.

        >>> Coverage(2, 9, True, ((1, 1), (3, 4))).named
        '1, 3–4 and 4 more'
        """
        text = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in self.missing)
        more = self.expected - (self.present - self.beyond) - sum(last - first + 1 for first, last in self.missing)
        return f"{text} and {more} more" if more > 0 else text


def coverage(
    present: int,
    highest: int,
    inner: Sequence[Run],
    lowest: int,
    expected: int | None,
    *,
    beyond: int = 0,
    limit: int = 8,
) -> Coverage:
    """From what a table can say of many ranks at once: how many, the lowest, the highest, and the gaps between them.

    >>> coverage(15, 15, [(11, 11)], 0, None).sentence
    '15 of at least 16 ranks, missing 11'
    >>> coverage(2, 3, [(2, 2)], 1, 6).sentence
    '2 of 6 ranks, missing 0, 2, 4–5'
    """
    size = highest + 1 if expected is None else expected
    runs = list(_runs(highest, inner, lowest, size))
    return Coverage(present, size, expected is not None, tuple(runs[:limit]), beyond)


def _runs(highest: int, inner: Iterable[Run], lowest: int, size: int) -> Iterator[Run]:
    for first, last in ((0, lowest - 1), *inner, (highest + 1, size - 1)):
        if first <= min(last, size - 1):
            yield first, min(last, size - 1)


@dataclass(frozen=True, slots=True)
class Clash:
    """A session that claims a rank whose own session answers. `holder` is None when that one is gone by now."""

    rank: int
    claimant: str
    holder: str | None
    old_style: bool
    same: bool
    """Both published the same dictionary."""

    @property
    def why(self) -> str:
        """What it most likely is."""
        if self.holder is None:
            return "the session that held the rank is gone; this one takes its place with the next probe"
        if self.old_style:
            return "it named itself by tp_rank alone, and two pipeline stages have the same: SGLang's newer seeds send rank"
        if self.same:
            return "both publish the same tensors: most likely two copies of one seed under one name"
        return "two seeds with other tensors use one name, or somebody publishes in another's name"

    @property
    def advice(self) -> str:
        if self.holder is None:
            return ""
        if self.old_style:
            return "Update the seed, so that its stages publish by rank, or give each stage an instance of its own."
        return f"Stop one of {self.holder} and {self.claimant}, or publish it under another instance."
