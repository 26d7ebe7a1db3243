"""Gateways and routers as tables and pages say them: a word, a sentence without ages, and what is due next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.queries.gateways import GatewayRow
from controlplane.queries.reported import OpenCount
from controlplane.queries.routers import MemberRow, RouterRow
from controlplane.queries.wording import counted, listing, span

OUTCOMES_NAMED = 3


@dataclass(frozen=True, slots=True)
class GatewayLine:
    row: GatewayRow
    state: str
    open: OpenCount | None
    outcomes: str
    """The most frequent ways in which its requests ended lately."""


@dataclass(frozen=True, slots=True)
class RouterLine:
    """`state`: a key of STATES. `held` of `wanted` instances are in it."""

    row: RouterRow
    state: str
    held: int
    wanted: int


@dataclass(frozen=True, slots=True)
class MemberLine:
    """`desired` and `observed` of an instance in a router."""

    row: MemberRow
    observed: str


def gateway_lines(
    rows: Sequence[GatewayRow], opened: Mapping[str, OpenCount], ended: Mapping[str, Mapping[str, int]], *, now: float
) -> list[GatewayLine]:
    return [
        GatewayLine(row, row.state(now), opened.get(row.name), outcomes_text(ended.get(row.name, {}))) for row in rows
    ]


def outcomes_text(counts: Mapping[str, int]) -> str:
    """
    >>> outcomes_text({"ok": 1284, "timeout": 3}), outcomes_text({})
    ('ok 1,284, timeout 3', '')
    """
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return listing([f"{name} {count:,}" for name, count in ordered], limit=OUTCOMES_NAMED)


def gateway_short(row: GatewayRow, state: str) -> tuple[str, str]:
    """The verdict in short, and why."""
    if state == "left":
        return "Left.", "It chooses nothing any more, and its breakers count no more."
    if state == "silent":
        lease = span(row.lease_seconds)
        return "Silent.", (
            f"Nothing was heard from it for longer than its lease of {lease}. It may still send requests by its last"
            " snapshot, so drains wait for it. Remove it if it is gone for good."
        )
    if row.behind is None:
        return "Joined, and serving nothing yet.", "It has acknowledged nothing of this ledger."
    if row.behind:
        return f"{counted(row.behind, 'revision').capitalize()} behind.", "It acknowledges when it has read that far."
    return "Follows.", "It has acknowledged everything that was written."


def router_line(row: RouterRow) -> RouterLine:
    held = sum(member.present for member in row.members if member.wanted)
    return RouterLine(row, row.state, held, len(row.instances))


def router_short(row: RouterRow) -> tuple[str, str]:
    line = router_line(row)
    holds = f"It holds {line.held} of {counted(line.wanted, 'instance')}."
    problem = f" {row.problem[:1].upper()}{row.problem[1:].rstrip('.')}." if row.problem else ""
    if row.checked_at is None:
        return ("Away.", f"It was never in reach.{problem}") if row.state == "away" else ("Not asked yet.", problem)
    return {
        "away": ("Away.", f"It is not in reach and may go on with the workers that it had.{problem}"),
        "in_step": ("In step.", f"{holds}{problem}"),
        "changing": ("Changing.", f"{holds} The rest is put in or taken out, or cannot be for now.{problem}"),
    }.get(row.state, ("Unknown.", f"{holds}{problem}"))


def member_lines(rows: Sequence[MemberRow]) -> list[MemberLine]:
    return [MemberLine(row, _observed(row)) for row in rows]


def _observed(row: MemberRow) -> str:
    """
    >>> _observed(MemberRow("a", wanted=False, present=True, worker_id="1", worker_url="", sentence="", changed_at=None))
    'holds_it'
    """
    if row.present:
        return "present" if row.wanted else "holds_it"
    return "missing" if row.wanted else "let_go"


def unlike_its_list(row: MemberRow) -> bool:
    """Wanted and not held, which may be as it shall be for now, or held and not wanted any more."""
    return row.wanted != row.present
