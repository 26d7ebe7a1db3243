"""Launches as rows of a table, and what their ranks share, side by side where two launches differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.queries.rows import InstanceRow, LaunchRow

from .ages import age_text

NOT_SAID = "not said"


@dataclass(frozen=True, slots=True)
class LaunchLine:
    """`told`: how far an open launch got; `took`: until it was complete; `lasted`: from then until it ended; else blank."""

    launch: LaunchRow
    told: str
    took: str
    lasted: str
    by: int | None

    @property
    def open(self) -> bool:
        return self.launch.ended_at is None


def launch_lines(launches: Sequence[LaunchRow], instance: InstanceRow) -> list[LaunchLine]:
    """`launches`: the newest first. The instance knows who is missing in those that are open."""
    there = {launch.number: launch for launch in (instance.current, instance.candidate) if launch is not None}
    lines = []
    for launch in launches:
        took = age_text(launch.completed_at - launch.opened_at) if launch.completed_at is not None else ""
        served = launch.completed_at is not None and launch.ended_at is not None
        lasted = age_text(launch.ended_at - launch.completed_at) if served else ""  # type: ignore[operator]
        told = there[launch.number].missing_sentence() if launch.number in there else ""
        lines.append(LaunchLine(launch, told, took, lasted, _replaced_by(launch)))
    return lines


def _replaced_by(launch: LaunchRow) -> int | None:
    """
    >>> from controlplane.domain.topology import Topology
    >>> ended = LaunchRow(3, "replaced", Topology(1, 1, 1, 1), None, {}, 0, 1, False, 9, "replaced by launch 5", 0)
    >>> _replaced_by(ended)
    5
    """
    word = launch.ended_reason.removeprefix("replaced by launch ")
    return int(word) if launch.state == "replaced" and word.isdigit() else None


@dataclass(frozen=True, slots=True)
class SharedFact:
    """One fact that all ranks of a launch say alike: of the current launch, of the candidate, and whether they differ."""

    name: str
    current: str
    candidate: str
    differs: bool


def shared_facts(current: LaunchRow | None, candidate: LaunchRow | None) -> list[SharedFact]:
    names = list(dict.fromkeys(name for launch in (current, candidate) if launch is not None for name in launch.facts))
    rows = []
    for name in names:
        mine, theirs = _said(current, name), _said(candidate, name)
        rows.append(SharedFact(name, mine, theirs, current is not None and candidate is not None and mine != theirs))
    return rows


def _said(launch: LaunchRow | None, name: str) -> str:
    if launch is None:
        return ""
    value = launch.facts.get(name)
    return NOT_SAID if value is None else str(value).lower() if isinstance(value, bool) else str(value)
