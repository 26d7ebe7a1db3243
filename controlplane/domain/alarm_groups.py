"""Many things that go wrong in the same way at once are one alarm, however many there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from .alarms import SEVERITIES, Cause, cause_of, plain
from .attention import Concern, Place, most_harm_first

FROM = 20
"""More than so many of a kind are one alarm,"""

UNTIL = 10
"""until there are not more than so many."""

NAMED = 3

THINGS: Mapping[str, str] = {
    "instance": "instances",
    "launches": "launches",
    "weights": "engine infos",
    "drain": "drains",
    "gateway": "gateways",
    "router": "routers",
    "pair": "pairs",
    "role": "roles",
    "clockwork": "tasks",
}
"""What there are many of, by the kind of their place."""

SAID: Mapping[str, str] = {
    "conflict": "are in conflict",
    "flushing": "answer 503 until every decode has dropped what it cached",
    "incompatible": "may be put together, and cannot work together",
    "mismatch": "do not fit",
    "open": "take no requests: gateways keep away from them",
    "refused": "had registrations refused",
}
"""What is said of many in a state; of every other one that they are it."""


def causes(concerns: Iterable[Concern], *, raised: Collection[str], grouped: Collection[str]) -> dict[str, Cause]:
    """What there is to alarm about, by key. `raised`: keys of alarms that were raised: they go on by themselves;
    `grouped`: keys of alarms of many that are not over."""
    alike: dict[tuple[str, str], list[Concern]] = defaultdict(list)
    for one in most_harm_first(concerns):
        alike[one.state, one.at.kind].append(one)
    found: dict[str, Cause] = {}
    for (state, kind), members in alike.items():
        key = group_key(state, kind)
        many = len(members) > (UNTIL if key in grouped else FROM)
        for cause in _each(members, raised if many else None):
            # Two rules may say the same of the same thing: the first has the more harm.
            found.setdefault(cause.key, cause)
        if many:
            found[key] = _all(key, state, kind, members)
    return found


def group_key(state: str, kind: str) -> str:
    return f"many:{state}:{kind}"


def is_group(key: str) -> bool:
    return key.startswith("many:")


def _each(members: Iterable[Concern], only: Collection[str] | None) -> Iterator[Cause]:
    for one in members:
        cause = cause_of(one)
        if only is None or cause.key in only:
            yield cause


def _all(key: str, state: str, kind: str, members: Sequence[Concern]) -> Cause:
    first, count = members[0], len(members)
    names = ", ".join(one.name for one in members[:NAMED])
    things = THINGS.get(kind, "things")
    said = SAID.get(state, f"are {state.replace('_', ' ')}")
    return Cause(
        key=key,
        severity=SEVERITIES[min(one.harm for one in members)],
        state=state,
        name=f"{count:,} {things}",
        at=Place("attention"),
        what=said,
        why=plain(f"{names} and {count - NAMED:,} more."),
        next=plain(f"Look for what they have in common; of {first.name}: {first.next}"),
        step="Show them",
        to=Place("attention"),
        since=min((one.since for one in members if one.since is not None), default=None),
        count=count,
    )
