"""What tests of alarms share: a fleet that is well, rounds of the alarm task three seconds apart, and what came of them."""

from __future__ import annotations

import time
import uuid
from typing import Any

from controlplane.commands import alarms
from controlplane.commands.alarms import Round
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import latest
from controlplane.models import Alarm, AlarmNotice, Instance, Lease
from controlplane.queries import attention, memo
from controlplane.queries.alarms import AlarmRow, listing
from tests.controlplane.queries.rounds import all_run
from tests.controlplane.queries.world import World

WHO = {"actor": "anna", "reason": "a new disk is on its way"}
TP2 = Topology(1, 1, 2, 1)


class Watcher:
    """Looks, three seconds later each time; the bootstrap process leads all the while, and the clockwork runs."""

    def __init__(self) -> None:
        self.now = time.time()
        self.leads = True
        all_run()

    def __call__(self, seconds: float = 3.0) -> Round:
        """As many rounds as fit into so many seconds, one at least; what they did, in all."""
        raised = resolved = told = 0
        until = self.now + seconds
        while self.now < until:
            self.now += 3.0
            done = self.look()
            raised, resolved, told = raised + done.raised, resolved + done.resolved, told + done.told
        return Round(raised, resolved, told)

    def look(self, now: float | None = None) -> Round:
        if self.leads:
            Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=self.now)
        forget()
        return alarms.watch(self.now if now is None else now)


def forget() -> None:
    memo.forget()
    attention.forget()


def serving(name: str = "prefill-a", *, first_port: int = 4000) -> World:
    world = World(name, ago=120.0)
    world.launch(TP2, first_port=first_port)
    return world


def many(count: int) -> None:
    """So many instances that served and lost what they had: alike, but for their names."""
    whole = serving("prefill-000")
    whole.refuse(4001)
    row = Instance.objects.using(FACTS).get(name="prefill-000")
    said = {
        field.name: getattr(row, field.name) for field in row._meta.concrete_fields if field.name not in ("id", "name")
    }
    Instance.objects.using(FACTS).bulk_create(
        Instance(name=f"prefill-{number:03}", **said) for number in range(1, count)
    )


def open_alarms() -> list[AlarmRow]:
    return list(listing(status="open"))


def the_alarm() -> AlarmRow:
    (found,) = open_alarms()
    return found


def told() -> list[tuple[str, int]]:
    """Messages in the order in which they are to be sent: kind and alarm."""
    return list(AlarmNotice.objects.using(FACTS).order_by("pk").values_list("kind", "alarm_id"))


def events(kind: str = "alarm."):
    return [event for event in latest(500) if event.kind.startswith(kind)]


def an_alarm(instance: str = "prefill-a", **columns: Any) -> Alarm:
    """One that was raised a minute ago, as the task would have written it; without a round."""
    now = time.time()
    said = {
        "key": f"down:instance:{instance}:{instance}",
        "severity": "critical",
        "state": "down",
        "kind": "instance",
        "place": instance,
        "instance": instance,
        "name": instance,
        "what": "takes no requests: 1 of its 2 ranks is gone",
        "why": "Missing dp0 tp1.",
        "next": "Look at host 10.0.0.1",
        "step": "Show ranks",
        "to_kind": "instance",
        "to_place": instance,
        "since": now - 70,
        "began_at": now - 66,
        "raised_at": now - 60,
    }
    return Alarm.objects.using(FACTS).create(**{**said, **columns})


def a_notice(alarm: Alarm, kind: str = "raised", **columns: Any) -> AlarmNotice:
    now = time.time()
    said = {
        "notice": str(uuid.uuid4()),
        "alarm_id": alarm.pk,
        "kind": kind,
        "body": "{}",
        "made_at": now,
        "due_at": now,
    }
    return AlarmNotice.objects.using(FACTS).create(**{**said, **columns})
