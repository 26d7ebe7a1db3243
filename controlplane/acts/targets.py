"""What an action is about: instances, DP groups, ranks. How they stand in URLs, and how they stand in the fleet."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.models import ALL_GROUPS, Drain, GroupIntent, Instance, Launch, Rank
from controlplane.queries.fleet import snapshot
from controlplane.queries.wording import address, ago, slot_key

MOST = 100
"""How many an action is about at most: more cannot be looked through before confirming."""

TEXT = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,99})"
    r"(?::dp(?P<group>\d{1,5})|:(?P<launch>\d{1,9}):dp(?P<dp>\d{1,5})\.cp(?P<cp>\d{1,5})\.tp(?P<tp>\d{1,5})\.pp(?P<pp>\d{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """An instance, one DP group of it, or one rank (`slot` of `launch`)."""

    name: str
    group: int = ALL_GROUPS
    slot: Slot | None = None
    launch: int | None = None

    def __str__(self) -> str:
        """As URLs and forms carry it; `read` is the way back.

        >>> str(Target("a")), str(Target("a", group=1)), str(Target("a", slot=Slot(0, 0, 3, 0), launch=2))
        ('a', 'a:dp1', 'a:2:dp0.cp0.tp3.pp0')
        """
        if self.slot is not None:
            return f"{self.name}:{self.launch}:{slot_key(self.slot)}"
        return self.name if self.group == ALL_GROUPS else f"{self.name}:dp{self.group}"

    @property
    def title(self) -> str:
        if self.slot is not None:
            return f"{self.slot} of {self.name}"
        return self.name if self.group == ALL_GROUPS else f"DP group dp{self.group} of {self.name}"

    @property
    def words(self) -> str:
        """As the audit names it, whichever way somebody came."""
        where = slot_key(self.slot) if self.slot is not None else f"dp{self.group}" if self.group != ALL_GROUPS else ""
        return f"{self.name} {where}".strip()

    @property
    def dp(self) -> int | None:
        """The DP group that it is about as a whole; None: an instance, or one rank."""
        return None if self.slot is not None or self.group == ALL_GROUPS else self.group

    def as_group(self) -> Target:
        """What a rank means to whatever cannot spare a single rank: its DP group."""
        return Target(self.name, group=self.slot.dp) if self.slot is not None else self


def read(text: str) -> Target:
    found = TEXT.fullmatch(text)
    if found is None:
        raise Refused(f"{text[:200]!r} names no instance, DP group or rank", code="malformed")
    if found["launch"] is not None:
        slot = Slot(int(found["dp"]), int(found["cp"]), int(found["tp"]), int(found["pp"]))
        return Target(found["name"], slot=slot, launch=int(found["launch"]))
    return Target(found["name"], group=int(found["group"]) if found["group"] else ALL_GROUPS)


def read_all(texts: Sequence[str]) -> list[Target]:
    """Each once, in the order given."""
    targets = list(dict.fromkeys(map(read, texts)))
    if not targets:
        raise Refused("nothing is selected", code="malformed")
    if len(targets) > MOST:
        raise Refused(f"{len(targets)} are selected; at most {MOST} can be looked through at once", code="malformed")
    return targets


Seat = tuple[int, str]
"""A launch, and the address of whoever sits there in a slot."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a target stands. `says` is what a page shows; while `pin` is the same, nothing that matters has changed."""

    target: Target
    version: int
    intent: str
    ranks: int
    says: Mapping[str, str]

    @property
    def pin(self) -> str:
        """The version counts every change by operators; a rank is also who sits in its slot, and launches come and go."""
        return " ".join([str(self.version), *(self.says[key] for key in ("launches", "rank") if key in self.says)])


def look(targets: Iterable[Target], *, now: float | None = None, launches: bool = False) -> list[Standing]:
    """How they stand, as of one moment, by a constant number of queries; `launches`: which are open, too.

    Raises Refused when one does not exist.
    """
    now = time.time() if now is None else now
    wanted = list(targets)
    with snapshot():
        instances = {row.name: row for row in Instance.objects.using(READER).filter(name__in={t.name for t in wanted})}
        for target in wanted:
            if target.name not in instances:
                raise Refused(f"no instance is named {target.name}", code="not_found")
        ids = [row.pk for row in instances.values()]
        groups = {(g.instance_id, g.group): g for g in GroupIntent.objects.using(READER).filter(instance_id__in=ids)}
        drains = {
            (d.instance_id, d.group): d for d in Drain.objects.using(READER).filter(instance_id__in=ids, ended_at=None)
        }
        counts = _counts(ids)
        seats = _seats(wanted, instances)
        opened = _open_launches(ids) if launches else {}
    found = [_standing(target, instances[target.name], groups, drains, counts, seats, now=now) for target in wanted]
    if launches:
        none = "none is open"
        found = [
            replace(one, says={**one.says, "launches": opened.get(instances[one.target.name].pk, none)})
            for one in found
        ]
    return found


def _standing(
    target: Target,
    instance: Instance,
    groups: Mapping[tuple[int, int], GroupIntent],
    drains: Mapping[tuple[int, int], Drain],
    counts: Mapping[tuple[int, int], int],
    seats: Mapping[Target, Sequence[Seat]],
    *,
    now: float,
) -> Standing:
    who = _by(instance.intent_actor, instance.intent_reason, instance.intent_at, now)
    says = {"instance": f"{instance.intent}{who}"}
    intent, ranks = str(instance.intent), sum(n for (pk, _), n in counts.items() if pk == instance.pk)
    dp = target.slot.dp if target.slot is not None else target.group
    if dp != ALL_GROUPS:
        own = groups.get((instance.pk, dp))
        says[f"DP group dp{dp}"] = f"{own.intent}{_by(own.actor, own.reason, own.at, now)}" if own else "enabled"
        intent, ranks = str(own.intent) if own else "enabled", counts.get((instance.pk, dp), 0)
    for group in dict.fromkeys((ALL_GROUPS, dp)):
        drain = drains.get((instance.pk, group))
        if drain is not None:
            what = "drain" if group == ALL_GROUPS else f"drain of dp{group}"
            says[what] = f"{drain.progress}{_by(drain.actor, drain.reason, drain.started_at, now)}"
    if target.slot is not None:
        sitting = seats.get(target, ())
        says["rank"] = _sits(target, sitting)
        ranks = sum(number == target.launch for number, _ in sitting)
    else:
        says["ranks"] = f"{ranks} registered"
    says["version"] = str(instance.version)
    return Standing(target, instance.version, intent, ranks, says)


def _by(actor: str, reason: str, at: float | None, now: float) -> str:
    if not actor and at is None:
        return ""
    since = f" {ago(at, now)}" if at is not None else ""
    return f" by {actor or 'nobody'}{since}{f': {reason}' if reason else ''}"


def _sitting() -> QuerySet[Rank]:
    """Ranks that count: they have not left, and their launch is open."""
    launches = Launch.objects.filter(instance_id=OuterRef("instance_id"), number=OuterRef("launch"), ended_at=None)
    return Rank.objects.using(READER).filter(Exists(launches), left_at=None)


def _open_launches(ids: list[int]) -> dict[int, str]:
    rows = Launch.objects.using(READER).filter(instance_id__in=ids, ended_at=None).order_by("number")
    found: dict[int, list[str]] = {}
    for instance, number, state in rows.values_list("instance_id", "number", "state"):
        found.setdefault(instance, []).append(f"{number} ({state})")
    return {instance: ", ".join(said) for instance, said in found.items()}


def _counts(ids: list[int]) -> dict[tuple[int, int], int]:
    rows = _sitting().filter(instance_id__in=ids).values("instance_id", "dp").annotate(n=Count("tp"))
    return {(row["instance_id"], row["dp"]): row["n"] for row in rows}


def _seats(targets: Iterable[Target], instances: Mapping[str, Instance]) -> dict[Target, list[Seat]]:
    """Who sits in these slots, by launch: while two are open, a slot may be taken in both."""
    places: dict[tuple[Any, ...], list[Target]] = {}
    which = Q()
    for target in targets:
        if target.slot is not None:
            key = (instances[target.name].pk, *target.slot)
            places.setdefault(key, []).append(target)
            which |= Q(**dict(zip(("instance_id", "dp", "cp", "tp", "pp"), key, strict=True)))
    found: dict[Target, list[Seat]] = {}
    for rank in _sitting().filter(which).order_by("launch") if places else ():
        for target in places[(rank.instance_id, rank.dp, rank.cp, rank.tp, rank.pp)]:
            found.setdefault(target, []).append((rank.launch, address(rank.ip, rank.port)))
    return found


def _sits(target: Target, sitting: Sequence[Seat]) -> str:
    """
    >>> _sits(Target("a", launch=2), [(1, "10.0.0.1:80"), (2, "10.0.0.1:81")])
    'launch 2 at 10.0.0.1:81; launch 1 at 10.0.0.1:80 sits in this slot too'
    """
    own = [f"launch {number} at {where}" for number, where in sitting if number == target.launch]
    others = [
        f"launch {number} at {where} sits in this slot{' too' if own else ''}"
        for number, where in sitting
        if number != target.launch
    ]
    return "; ".join([*(own or ["nobody sits there any more"]), *others])


def differences(seen: Mapping[str, Mapping[str, str]], standings: Iterable[Standing]) -> dict[str, list[str]]:
    """What changed since somebody looked, by target; `seen` holds each one's `says` and pin as it was then."""
    found: dict[str, list[str]] = {}
    for standing in standings:
        before = seen.get(str(standing.target))
        if before is None:
            found[standing.target.title] = ["was not shown before"]
        elif before.get("pin") != standing.pin:
            now = {key: value for key, value in standing.says.items() if key != "version"}
            keys = dict.fromkeys([*now, *(key for key in before if key not in ("pin", "version", "ranks"))])
            # Ages tick; what they are the age of is what counts.
            changed = [
                f"{key}: {before.get(key, 'nothing')} → {now.get(key, 'nothing')}"
                for key in keys
                if _ageless(before.get(key)) != _ageless(now.get(key))
            ]
            version = f"version {before.get('version', '?')} → {standing.version}"
            found[standing.target.title] = [*changed, version]
    return found


def _ageless(text: str | None) -> str | None:
    return None if text is None else re.sub(r" [\d.]+ (?:d|h|min|s) ago", "", text)


def grouped(targets: Iterable[Target]) -> tuple[list[Target], list[str]]:
    """Ranks as their DP groups, each once, and a sentence for each rank that became more than itself."""
    groups: dict[Target, list[Slot]] = {}
    for target in targets:
        slots = groups.setdefault(target.as_group(), [])
        if target.slot is not None:
            slots.append(target.slot)
    notes = [
        f"A single rank cannot be spared: {', '.join(map(str, slots[:4]))}{' …' if len(slots) > 4 else ''} of {group.name}"
        f" stands for all of DP group dp{group.group}."
        for group, slots in groups.items()
        if slots
    ]
    return list(groups), notes
