"""The strip of an instance: its ranks as small marks, drawn as few paths however many there are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.queries.strips import DOWN, LATE, MISS, OK, WAIT, WORST, Marks

HELD, DRAIN, CORDON = "held", "drain", "cordon"
MOST_MARKS = 64
WORDS = {
    OK: "routable",
    HELD: "there, not routable",
    WAIT: "not asked yet",
    LATE: "do not answer",
    DOWN: "down",
    MISS: "missing",
    DRAIN: "draining",
    CORDON: "cordoned",
}
"""Every mark and its words, in the order in which they are counted out."""

LINES = {OK: (8,), HELD: (8,), WAIT: (8,), LATE: (3, 13), DOWN: (8,), CORDON: (8,)}
"""The height at which a mark is drawn as a dashed line; a mark that is not here is an outline."""

OUTLINES = {DRAIN: (3.5, 9), MISS: (5.5, 5)}
"""The top and the height of an outline."""


@dataclass(frozen=True, slots=True)
class Strip:
    """`paths`: class and course, one for each kind of mark. `tight`: its marks are narrower."""

    width: int
    label: str
    paths: tuple[tuple[str, str], ...]
    tight: bool = False


NOTHING = Strip(0, "", ())


def strip_of(groups: Sequence[Marks], *, routable: Mapping[int, bool], intents: Mapping[int, str]) -> Strip:
    """`routable` and `intents` by DP group.

    >>> one = strip_of([Marks(0, ("ok", "ok", "late", "down"))], routable={0: True}, intents={})
    >>> one.label, one.width, one.paths
    ('2 routable, 1 do not answer, 1 down', 15, (('ok', 'M0 8h7'), ('late', 'M8 3h3M8 13h3'), ('down', 'M12 8h3')))
    """
    shown = [[_seen(mark, group.group, routable, intents) for mark in group.marks] for group in groups]
    if not shown:
        return NOTHING
    counts = Counter(mark for marks in shown for mark in marks)
    each = max(group.each for group in groups)
    if each > 1:
        # One mark a DP group: they stand side by side, and neighbours share one where there are very many.
        shown = [_merged([mark for marks in shown for mark in marks])]
    label = ", ".join(f"{counts[mark]} {word}" for mark, word in WORDS.items() if counts[mark])
    drawn, width, tight = _draw(shown)
    return Strip(width, f"{label} (DP groups of {each} ranks, the worst of each)" if each > 1 else label, drawn, tight)


def _seen(mark: str, group: int, routable: Mapping[int, bool], intents: Mapping[int, str]) -> str:
    intent = intents.get(group, "enabled")
    if intent != "enabled":
        return DRAIN if intent == "draining" else CORDON
    return mark if mark != OK or routable.get(group, False) else HELD


WORST_SEEN = (*WORST[:-1], DRAIN, CORDON, HELD, OK)


def _merged(marks: list[str]) -> list[str]:
    per = -(-len(marks) // MOST_MARKS)
    parts = [marks[place : place + per] for place in range(0, len(marks), per)]
    return [min(part, key=WORST_SEEN.index) for part in parts]


def _draw(groups: Sequence[Sequence[str]]) -> tuple[tuple[tuple[str, str], ...], int, bool]:
    tight = sum(map(len, groups)) > 32
    step = 3 if tight else 4
    gap = 0 if max(map(len, groups)) == 1 else 4 if len(groups) <= 8 else 2
    courses: dict[str, list[str]] = defaultdict(list)
    x = 0
    for marks in groups:
        for mark, length in _runs(marks):
            courses[mark].append(_course(mark, x, length, step))
            x += length * step
        x += gap
    order = {mark: place for place, mark in enumerate(WORDS)}
    paths = tuple((mark, "".join(courses[mark])) for mark in sorted(courses, key=order.__getitem__))
    return paths, x - gap - 1, tight


def _course(mark: str, x: int, length: int, step: int) -> str:
    if mark in LINES:
        return "".join(f"M{x} {y}h{length * step - 1}" for y in LINES[mark])
    top, height = OUTLINES[mark]
    places = (x + number * step for number in range(length))
    return "".join(f"M{place}.5 {top}h{step - 2}v{height}h-{step - 2}z" for place in places)


def _runs(marks: Sequence[str]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for mark in marks:
        if found and found[-1][0] == mark:
            found[-1] = (mark, found[-1][1] + 1)
        else:
            found.append((mark, 1))
    return found
