"""What needs a person: what is wrong, why, what to do next. Most harm first.

Sentences carry no ages, which would be old as soon as they are read: `since` stands beside them. Whatever somebody
wanted so (an intent) is no concern.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Harm(enum.IntEnum):
    """What it costs, the worst first."""

    NOTHING_SERVED = 0
    """No new request can be served at all, or nobody answers."""
    DOWN = 1
    """An instance that shall take requests takes none."""
    PART = 2
    """A part of it does not, or the next requests may fail."""
    STUCK = 3
    """Something that was begun does not get on."""
    DOUBT = 4
    """It works, and may soon not."""
    TOLD = 5
    """Somebody should know."""


class Place(NamedTuple):
    """Where to look: a kind of page, and the name or id of what it shows."""

    kind: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """`name` and then `what` are one sentence; `name` leads to `at`. `step` are the words that lead on to `to`.

    `state`: one word, as pages show states. `size`: how many ranks it is about, to order what harms alike.
    """

    harm: Harm
    state: str
    name: str
    at: Place
    what: str
    why: str = ""
    next: str
    step: str
    to: Place
    since: float | None = None
    size: int = 0

    @property
    def key(self) -> str:
        return f"{self.state}:{self.at.kind}:{self.at.key}:{self.name}"


def most_harm_first(concerns: Iterable[Concern]) -> list[Concern]:
    """Then the larger, then the older, then by name: the order changes only when one of these does."""
    return sorted(concerns, key=lambda one: (one.harm, -one.size, one.since or 0.0, one.name, one.state))


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "rank"), counted(0, "rank")
    ('1 rank', '0 ranks')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def sentence(*parts: str) -> str:
    """Those that say something, each with a full stop, and a capital unless it begins with a name.

    >>> sentence("launch 7 serves meanwhile", "", "dp0 tp1 left.")
    'Launch 7 serves meanwhile. dp0 tp1 left.'
    """
    return " ".join(f"{_begun(part)}." for part in (part.rstrip(".") for part in parts) if part)


def _begun(text: str) -> str:
    return text[:1].upper() + text[1:] if text.split(" ", 1)[0].isalpha() else text
