"""What a dialog says of an action before it is confirmed: what it takes away, and whether that is too much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.queries.drains import Plan
from controlplane.queries.impact import Alive, Impact
from controlplane.queries.routable import Counts
from controlplane.queries.wording import counted, listing


@dataclass(frozen=True, slots=True)
class Line:
    """`tone`: ok, warn or bad, with its icon before the text; blank: only the text. `state`: a word of states before it."""

    label: str
    text: str
    tone: str = ""
    state: str = ""

    @property
    def icon(self) -> str:
        return {"ok": "ok", "warn": "warn", "bad": "x"}.get(self.tone, "")


def of_plan(plan: Plan, *, drains: bool) -> list[Line]:
    """One target. `drains`: who must stop, and who can tell that nothing is left, is said as well."""
    now = Counts(plan.instances_now, plan.groups_now, plan.ranks_now)
    after = Counts(plan.instances_after, plan.groups_after, plan.ranks_after)
    said = [_routable(plan.role, now, after), _pairs(plan.pairs_now, plan.pairs_after)]
    if plan.min_ready:
        said.append(_budget(plan.instances_after, plan.min_ready))
    if drains:
        said += [_admission(plan), _witnesses(plan)]
        if plan.refused is not None:
            said.append(Line("refused", f"it would be: {plan.refused}", "bad"))
    elif not plan.selectors:
        said.append(Line("admission", "nobody who chooses workers is known who would be told of it", "warn"))
    return said


def of_impact(impact: Impact, min_ready: int) -> list[Line]:
    """Several targets, all of them at once."""
    said = [_routable(one.role, one.now, one.after) for one in impact.roles]
    said.append(_pairs(impact.pairs_now, impact.pairs_after))
    if min_ready and impact.roles:
        said.append(_budget(min(one.after.instances for one in impact.roles), min_ready))
    return said


def rooms(alive: Alive) -> str:
    """
    >>> rooms(Alive(14, True)), rooms(Alive(1, False)), rooms(Alive(0, True))
    ('14 rooms in flight', 'at least 1 room in flight', 'no room in flight')
    """
    if not alive.rooms:
        return "no room in flight" if alive.whole else "no room in flight among the newest"
    return f"{'' if alive.whole else 'at least '}{counted(alive.rooms, 'room')} in flight"


def named(names: Iterable[str]) -> str:
    return listing(names, limit=6)


def _routable(role: str, now: Counts, after: Counts) -> Line:
    ranks = f"{now.ranks} → {after.ranks} ranks, " if now.ranks or after.ranks else ""
    text = f"{ranks}{now.groups} → {after.groups} DP groups, {now.instances} → {after.instances} {role} instances"
    return Line("routable", text, "warn" if now.instances and not after.instances else "")


def _pairs(now: int, after: int) -> Line:
    tone = "bad" if now and not after else ""
    return Line(
        "pairs", f"{now} → {after} routable prefill × decode{': requests would be refused' if tone else ''}", tone
    )


def _budget(stay: int, needed: int) -> Line:
    enough = stay >= needed
    return Line("budget", f"{counted(stay, 'instance')} of the role stay, {needed} needed", "ok" if enough else "bad")


def _admission(plan: Plan) -> Line:
    if not plan.selectors:
        return Line("to stop", "nobody who chooses workers is known: admission cannot be stopped from here", "warn")
    who = named(plan.selectors)
    if not plan.can_stop_admission:
        return Line("to stop", f"not possible for one DP group: {who} choose whole instances", "warn")
    return Line("to stop", who)


def _witnesses(plan: Plan) -> Line:
    if not plan.witnesses:
        return Line("told by", "nobody who can tell that nothing is left, unless its workers report", "warn")
    return Line("told by", named(plan.witnesses))


def standing_lines(says: Mapping[str, str]) -> list[Line]:
    """How a target stands, without what the form compares by itself.

    >>> [line] = standing_lines({"instance": "cordoned by bob 3 s ago: hot", "version": "2"})
    >>> line.label, line.state, line.text
    ('instance', 'cordoned', 'by bob 3 s ago: hot')
    """
    return [_stands(key, text) for key, text in says.items() if key not in ("version", "ranks")]


def _stands(key: str, text: str) -> Line:
    word, _, rest = text.partition(" ")
    return Line(key.removeprefix("DP group "), rest, state=word) if key != "rank" else Line(key, text)
