"""What needs a person, from the tables: reads everything that the rules of domain.attention look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from controlplane.domain import attention_fleet as beside
from controlplane.domain.alarms import key_of
from controlplane.domain.attention import Concern, most_harm_first
from controlplane.domain.attention_engines import withheld
from controlplane.domain.attention_fleet import ChooserSeen, DrainSeen, Refusal
from controlplane.domain.attention_instances import of_instances
from controlplane.domain.attention_seen import EngineSeen, InstanceSeen, LaunchSeen
from controlplane.domain.attention_tasks import LateWorkers, of_late_workers
from controlplane.domain.engine_health import State
from controlplane.domain.observed import observed
from controlplane.ledger.tail import head

from . import alarms, clockwork, drains, fleet, gateways, routers, workers
from .alarms import AlarmSeen
from .clockwork import TaskRow
from .drains import DrainRow
from .engine_health import EngineRow
from .gateways import GatewayRow
from .memo import Memo, weighed
from .pairing import Pairing, pairing
from .routable import RoutableRow, Weighed
from .routers import RouterRow
from .rows import InstanceRow, LaunchRow, RankRow
from .sql import read
from .wording import slot_ranges

LATELY_SECONDS = 600.0
REFUSALS = 200
NAMED = 4
MOST_DRAINS = 200
LOOK_BACK = 20_000
"""How many revisions are looked through for what was told lately."""

NEWEST = """
SELECT l.instance_id, l.number, MAX(r.first_at)
FROM controlplane_launch l JOIN controlplane_rank r ON r.instance_id = l.instance_id AND r.launch = l.number
WHERE l.ended_at IS NULL AND l.completed_at IS NULL AND r.left_at IS NULL GROUP BY l.instance_id, l.number"""
TROUBLED = """
SELECT instance, MAX(at) FROM controlplane_event
WHERE revision > %s AND kind = 'rank.probed' AND data NOT LIKE %s GROUP BY instance"""
REFUSED = f"""
SELECT instance, at, data FROM controlplane_event
WHERE revision > %s AND kind = 'registration.refused' AND at > %s ORDER BY revision DESC LIMIT {REFUSALS}"""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that the rules look at, as of one revision and not older than a second."""

    weighed: Weighed
    drains: tuple[DrainRow, ...]
    gateways: tuple[GatewayRow, ...]
    routers: tuple[RouterRow, ...]
    pairing: Pairing
    newest: Mapping[tuple[int, int], float]
    troubled: Mapping[str, float]
    refusals: tuple[Refusal, ...]
    tasks: tuple[TaskRow, ...] = ()
    late: tuple[LateWorkers, ...] = ()
    alarms: Mapping[str, AlarmSeen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attention:
    """`concerns` are those with the most harm; `total` counts all of them, `states` by their word."""

    concerns: tuple[Concern, ...]
    total: int
    states: Mapping[str, int]
    alarms: Mapping[str, AlarmSeen] = field(default_factory=dict)
    """By the key of their cause: those that are not over."""


_SCENE: Memo[Scene] = Memo()


def scene(*, now: float) -> Scene:
    """Call it inside a snapshot."""
    at = head()
    return _SCENE.get((at.ledger_id, at.revision), lambda: _read_scene(now, at.revision))


def forget() -> None:
    _SCENE.forget()


def attention(there: Scene, *, now: float, limit: int = 20) -> Attention:
    """Those with the most harm, of all that the rules find in a scene."""
    found = most_harm_first(concerns(there, now=now))
    found = [_since(one, there.alarms) for one in found]
    states: dict[str, int] = defaultdict(int)
    for one in found:
        states[one.state] += 1
    return Attention(tuple(found[:limit]), len(found), dict(states), there.alarms)


def _since(one: Concern, known: Mapping[str, AlarmSeen]) -> Concern:
    """Where no rule knows since when it is so, it is since we have seen it."""
    alarm = known.get(key_of(one)) if one.since is None else None
    return replace(one, since=alarm.began_at) if alarm is not None else one


def concerns(there: Scene, *, now: float) -> Iterator[Concern]:
    fleet = there.weighed.fleet
    leader = fleet.leader
    seen = [instance_seen(row, there) for row in there.weighed.rows if not row.instance.retired]
    yield from beside.leadership(leads=leader.leads(now), holder=leader.holder, heard_at=leader.stamp or None)
    yield from beside.nothing_left(seen)
    # Where nothing is to be kept, and nothing ever ran, nothing is amiss.
    if seen or clockwork.heard_at(there.tasks) is not None:
        yield from clockwork.concerns(there.tasks, now=now)
    yield from of_late_workers(there.late)
    yield from of_instances(seen, now=now)
    yield from withheld(seen)
    yield from beside.of_drains(map(_drain_seen, there.drains), now=now)
    yield from beside.of_choosers(_choosers(there, now))
    yield from beside.of_pairs(there.pairing.misfits)
    yield from beside.of_refusals(there.refusals)


def observed_of(row: RoutableRow) -> str:
    """One word for what is seen of an instance, whatever is wanted of it."""
    one = row.instance
    return observed(
        row.verdict,
        unanswered=sum(group.unanswered for group in row.groups),
        owing=one.debt_since is not None,
        sessions=one.sessions,
        conflicts=one.conflicts,
        engine=State(one.engine.state),
    )


def instance_seen(row: RoutableRow, there: Scene) -> InstanceSeen:
    one = row.instance
    left, total = _left(one)
    return InstanceSeen(
        name=one.name,
        role=one.role,
        observed=observed_of(row),
        verdict=row.verdict,
        created_at=one.created_at,
        groups=tuple((group.group, group.verdict) for group in row.groups),
        current=_launch_seen(one.id, one.current, there),
        candidate=_launch_seen(one.id, one.candidate, there),
        unanswered=sum(group.unanswered for group in row.groups),
        troubled_at=there.troubled.get(one.name),
        owing_since=one.debt_since,
        owing_why=one.health_reason,
        sessions=one.sessions,
        conflicts=one.conflicts,
        gone=_gone(left, total),
        hosts=tuple(sorted({rank.ip for rank in left})) if total == len(left) else (),
        engine=_engine_seen(one.engine),
    )


def _engine_seen(engine: EngineRow) -> EngineSeen | None:
    if not engine.at:
        return None
    return EngineSeen(
        state=State(engine.state),
        sentence=engine.sentence,
        since=engine.since,
        why=engine.why,
        withheld_since=engine.withheld_since,
        fails=engine.fails,
        load=engine.load_told,
    )


def _launch_seen(id_: int, launch: LaunchRow | None, there: Scene) -> LaunchSeen | None:
    if launch is None:
        return None
    return LaunchSeen(
        number=launch.number,
        registered=launch.registered,
        size=launch.expected,
        missing=_missing(launch),
        newest_at=there.newest.get((id_, launch.number)),
        claims=len(launch.claims),
    )


def _missing(launch: LaunchRow) -> str:
    """The first of the empty slots, neighbours together, and how many more there are."""
    shown = slot_ranges(launch.missing, launch.topology)[:NAMED]
    more = launch.expected - launch.registered - sum(count for _, count in shown)
    said = ", ".join(name for name, _ in shown)
    return f"{said} and {more:,} more" if more else said


def _left(one: InstanceRow) -> tuple[Sequence[RankRow], int | None]:
    """Who left the launch that counts, else the newest of those that ended lately; and how many they are, if that is known.

    Not all of them are named. Whoever left an older launch has been replaced.
    """
    current = one.current
    number = current.number if current else max((rank.launch for rank in one.left), default=0)
    left = [rank for rank in one.left if rank.launch == number]
    if current is not None and current.completed_at is not None:
        # Each of its slots was filled once.
        return left, max(len(left), current.expected - current.registered)
    return left, len(left) if len(one.left) < fleet.NAMED else None


def _gone(left: Sequence[RankRow], total: int | None) -> str:
    if not left:
        return ""
    more = f"at least {len(left) - 1}" if total is None else f"{total - 1:,}"
    others = f" and {more} more" if more != "0" else ""
    return f"{left[0].name}{others} left: {left[0].left_reason}"


def _drain_seen(drain: DrainRow) -> DrainSeen:
    return DrainSeen(
        id=drain.id,
        what=drain.what,
        progress=drain.progress,
        reason=drain.reason,
        actor=drain.actor,
        started_at=drain.started_at,
        deadline_at=drain.deadline_at,
        checked_at=drain.checked_at,
        blockers=drain.obstacles,
    )


def _choosers(there: Scene, now: float) -> Iterator[ChooserSeen]:
    held_up = Counter(who for drain in there.drains for who in {(one.about, one.name) for one in drain.obstacles})
    for gateway in there.gateways:
        yield ChooserSeen(
            name=gateway.name,
            router=False,
            quiet=gateway.silent(now),
            heard_at=gateway.seen_at,
            held_up=held_up["gateway", gateway.name],
        )
    for router in there.routers:
        yield ChooserSeen(
            name=router.name,
            router=True,
            quiet=router.state == "away",
            heard_at=router.checked_at,
            problem=router.problem,
            in_step=router.state == "in_step",
            held_up=held_up["router", router.name],
        )


def _read_scene(now: float, revision: int) -> Scene:
    found = weighed(now=now)
    chosen = routers.listing()
    return Scene(
        found,
        drains.listing(ended=False, limit=MOST_DRAINS),
        gateways.listing(),
        chosen,
        pairing(found.rows, chosen),
        {(id_, number): at for id_, number, at in read(NEWEST)},
        dict(read(TROUBLED, [revision - LOOK_BACK, '%"contact":"up"%'])),
        _refusals(read(REFUSED, [revision - LOOK_BACK, now - LATELY_SECONDS])),
        clockwork.listing(),
        workers.late_by_instance(),
        alarms.seen(),
    )


def _refusals(rows: list[tuple[Any, ...]]) -> tuple[Refusal, ...]:
    """One for each instance; the rows are the newest first."""
    own: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, at, data in rows:
        own[name].append((at, data))
    found = []
    for name, told in own.items():
        newest = msgspec.json.decode(told[0][1])
        said = {key: newest[key] for key in ("what", "source", "sentence")}
        found.append(Refusal(instance=name, count=len(told), at=told[0][0], **said))
    return tuple(found)
