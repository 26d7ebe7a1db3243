"""The fleet in a few numbers, from verdicts that are there already: no query of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .compatibility import says_its_size
from .routable import RoutableRow


@dataclass(frozen=True, slots=True)
class FillingRow:
    """A launch that some of its ranks have not joined yet."""

    instance: str
    number: int
    registered: int
    expected: int
    candidate: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """Ranks and DP groups of prefill and decode instances; seeds take no requests. `wanted_away`: by intent of operators.

    `unsized`: decodes that neither registered nor said at their own servers how large they are.
    """

    roles: Mapping[str, int]
    retired: int
    ranks: int
    routable: int
    wanted_away: int
    groups: int
    serving: int
    unsized: int
    filling: tuple[FillingRow, ...]

    @property
    def in_trouble(self) -> int:
        return max(0, self.ranks - self.routable - self.wanted_away)

    @property
    def instances(self) -> int:
        return sum(self.roles.values())


def totals(rows: Iterable[RoutableRow]) -> Totals:
    roles: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    coming: list[FillingRow] = []
    for row in rows:
        one = row.instance
        if one.retired:
            numbers["retired"] += 1
            continue
        roles[row.role] += 1
        coming += filling(row)
        if row.role == "seed":
            continue
        numbers["unsized"] += one.current is None and row.role == "decode" and not says_its_size(row)
        for group in row.groups:
            routable = row.routable and group.verdict.routable
            numbers["groups"] += 1
            numbers["ranks"] += group.size
            numbers["serving"] += routable
            numbers["routable"] += group.registered if routable else 0
            numbers["wanted_away"] += group.size if not routable and group.intent != "enabled" else 0
    return Totals(
        dict(roles),
        numbers["retired"],
        numbers["ranks"],
        numbers["routable"],
        numbers["wanted_away"],
        numbers["groups"],
        numbers["serving"],
        numbers["unsized"],
        tuple(coming),
    )


def ready(row: RoutableRow) -> int:
    """How many of its ranks can be sent work."""
    return sum(group.registered for group in row.groups if group.verdict.routable) if row.routable else 0


def filling(row: RoutableRow) -> list[FillingRow]:
    """A candidate, or a first launch; one that served and lost ranks is broken, and does not fill."""
    one = row.instance
    launches = [(one.current, False), (one.candidate, True)]
    return [
        FillingRow(one.name, launch.number, launch.registered, launch.expected, candidate)
        for launch, candidate in launches
        if launch is not None and not launch.full and (candidate or one.debt_since is None)
    ]
