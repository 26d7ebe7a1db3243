"""What gateways and workers report: the last word of each is kept, and only a breaker that turns is an event."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction

from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.domain.reports import (
    WHOLE_INSTANCE,
    BreakerReport,
    read_breakers,
    read_open_rooms,
    read_outcomes,
)
from controlplane.ledger.append import NewEvent
from controlplane.ledger.failures import tried_again
from controlplane.metrics.web import REPORTED
from controlplane.models import Breaker, Gateway, Instance, OpenRooms, OutcomeCount

from .keeping import before, keeping
from .transaction import record
from .trimming import Budget, count, delete

Item = Mapping[str, Any]
CHUNK = 200
MAX_SOURCE = 128
MAX_ROWS = 200_000
"""Open-room rows of one kind. A new source past that is refused: names of workers are theirs to choose."""

LEFT_KEPT_SECONDS = 7 * 86_400.0

KEEP_LATEST = """
INSERT INTO controlplane_openrooms
 (kind, source, instance, "group", launch_token, open_rooms, taken_at, received_at) VALUES {rows}
ON CONFLICT (kind, source, instance, "group") DO UPDATE SET launch_token = excluded.launch_token,
 open_rooms = excluded.open_rooms, taken_at = excluded.taken_at, received_at = excluded.received_at
WHERE excluded.taken_at >= controlplane_openrooms.taken_at"""
ADD_UP = """
INSERT INTO controlplane_outcomecount (minute, gateway, prefill, decode, outcome, count) VALUES {rows}
ON CONFLICT (minute, gateway, prefill, decode, outcome)
DO UPDATE SET count = controlplane_outcomecount.count + excluded.count"""


@dataclass(frozen=True, slots=True)
class Reported:
    """How many items were kept, how many breakers turned, and which instances nobody knows here (their items are not)."""

    kept: int
    turned: int = 0
    unknown: tuple[str, ...] = ()


def report_breakers(name: str, items: Sequence[Item], now: float | None = None) -> Reported:
    """A gateway's verdicts. No row means closed: a first report of "closed" leaves none."""
    at = time.time() if now is None else now
    reports = {(report.instance, report.group): report for report in read_breakers(items)}

    def work() -> tuple[Reported, list[NewEvent]]:
        still_joined(name, at)
        known = known_instances(instance for instance, _ in reports)
        here = {key: report for key, report in reports.items() if key[0] in known}
        events = turn(name, here, at=at)
        return Reported(len(here), len(events), _others(known, reports)), events

    return record(work)


def turn(gateway: str, reports: Mapping[tuple[str, int], BreakerReport], *, at: float) -> list[NewEvent]:
    """Write breakers of one gateway or router, whose reports nobody else writes meanwhile; the events of those that turned."""
    rows = Breaker.objects.using(FACTS).filter(gateway=gateway, instance__in={name for name, _ in reports})
    before = {(row.instance, row.group): row for row in rows}
    same, events = [], []
    for key, report in sorted(reports.items()):
        row = before.get(key)
        was = row.state if row is not None else Breaker.State.CLOSED.value
        if report.state == was:
            same += [row.pk] if row is not None else []
            continue
        said: dict[str, Any] = {
            "state": report.state,
            "since": at - report.age,
            "reported_at": at,
            "reason": report.reason,
        }
        Breaker.objects.using(FACTS).update_or_create(
            gateway=gateway, instance=report.instance, group=report.group, defaults=said
        )
        dp = None if report.group == WHOLE_INSTANCE else report.group
        data = {"gateway": gateway, "dp": dp, "before": was, "after": report.state, "reason": report.reason}
        events.append(NewEvent("breaker.turned", report.instance, data))
    for start in range(0, len(same), CHUNK):
        Breaker.objects.using(FACTS).filter(pk__in=same[start : start + CHUNK]).update(reported_at=at)
    return events


def report_open_rooms(kind: str, source: str, items: Sequence[Item], now: float | None = None) -> Reported:
    """How many rooms a gateway or a worker knows to be open. An older word never replaces a newer one."""
    at = time.time() if now is None else now
    if kind not in OpenRooms.Kind.values:
        raise Refused(f"open rooms are reported by a {' or a '.join(OpenRooms.Kind.values)}", code="malformed")
    if not source or len(source) > MAX_SOURCE or not source.isprintable():
        raise Refused(f"the source must be named, in at most {MAX_SOURCE} printable characters", code="malformed")
    reports = {(report.instance, report.group): report for report in read_open_rooms(items)}

    def work() -> tuple[Reported, list[NewEvent]]:
        if kind == OpenRooms.Kind.GATEWAY:
            still_joined(source, at)
        _check_room_for(kind, source)
        known = known_instances(instance for instance, _ in reports)
        rows = [
            (kind, source, r.instance, r.group, r.launch_token, r.open_rooms, at - r.age, at)
            # In one order, so that two reports that meet wait for each other instead of dead-locking.
            for _, r in sorted(reports.items())
            if r.instance in known
        ]
        store(FACTS, KEEP_LATEST, rows)
        return Reported(len(rows), 0, _others(known, reports)), []

    return record(work)


def report_outcomes(name: str, items: Sequence[Item], now: float | None = None) -> Reported:
    """Add up how requests ended, a minute and a pair at a time. A report that is sent twice counts twice."""
    at = time.time() if now is None else now
    reports = read_outcomes(items)
    record(lambda: (still_joined(name, at), []))
    known = known_instances([*(r.prefill for r in reports), *(r.decode for r in reports)])
    counts: Counter[tuple[int, str, str, str]] = Counter()
    unknown: set[str] = set()
    kept = 0
    for report in reports:
        strangers = {report.prefill, report.decode} - known - {""}
        if strangers:
            unknown |= strangers
            continue
        kept += 1
        minute = int((at - report.age) // 60)
        counts[minute, report.prefill, report.decode, report.outcome] += report.count
    rows = [(minute, name, *pair, count) for (minute, *pair), count in sorted(counts.items()) if count]

    def work() -> None:
        with transaction.atomic(using=TRAFFIC):
            store(TRAFFIC, ADD_UP, rows)

    tried_again(work)
    for (*_, outcome), many in counts.items():
        REPORTED.add(outcome, amount=many)
    return Reported(kept, 0, tuple(sorted(unknown)))


def forget_old(*, now: float, budget: Budget | None = None) -> int:
    """Delete reports that nobody needs any more, and gateways that left long ago; how many rows."""
    spent, keep = budget or Budget(), keeping()
    gone = {"gateways": delete(Gateway._meta.db_table, "left_at < %s", [now - LEFT_KEPT_SECONDS], budget=spent)}
    old = before(now, keep.reports)
    if old is not None:
        gone["open rooms"] = delete(OpenRooms._meta.db_table, "received_at < %s", [old], budget=spent)
    old = before(now, keep.outcomes)
    if old is not None:
        table = OutcomeCount._meta.db_table
        gone["outcomes"] = delete(table, "minute < %s", [int(old // 60)], budget=spent, alias=TRAFFIC)
    return sum(count(subject, number, now=now) for subject, number in gone.items())


def still_joined(name: str, at: float) -> Gateway:
    """The gateway's row, locked, and heard from now. Raises Refused when it never joined, or has left."""
    found = Gateway.objects.using(FACTS).select_for_update(no_key=True).filter(name=name, left_at=None).first()
    if found is None:
        raise Refused(f"no gateway named {name} has joined, or it has left: join again", code="not_found")
    # An older word makes it no older; further ahead than its lease is a clock that has been set back since.
    heard_at = found.seen_at if at < found.seen_at <= at + found.lease_seconds else at
    Gateway.objects.using(FACTS).filter(pk=found.pk).update(seen_at=heard_at)
    return found


def known_instances(names: Iterable[str]) -> set[str]:
    asked = sorted({name for name in names if name})
    found: set[str] = set()
    for start in range(0, len(asked), CHUNK):
        some = Instance.objects.using(FACTS).filter(name__in=asked[start : start + CHUNK])
        found |= set(some.values_list("name", flat=True))
    return found


def _others(known: set[str], reports: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(sorted({name for name, _ in reports} - known))


def _check_room_for(kind: str, source: str) -> None:
    rows = OpenRooms.objects.using(FACTS).filter(kind=kind)
    if not rows.filter(source=source).exists() and rows.count() >= MAX_ROWS:
        raise Refused("too many sources report open rooms; old ones are forgotten within a day", code="too_many")


def store(alias: str, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    with connections[alias].cursor() as cursor:
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            marks = ", ".join([f"({', '.join(['%s'] * len(some[0]))})"] * len(some))
            cursor.execute(sql.format(rows=marks), [value for row in some for value in row])
