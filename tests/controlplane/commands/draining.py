"""What tests of drains share: a gateway that follows, looks one second apart, and the newest drain."""

from __future__ import annotations

import time

from controlplane.commands import drains, gateways
from controlplane.databases import FACTS, TRAFFIC
from controlplane.ledger.tail import head, latest
from controlplane.models import Instance, RoomBinding
from controlplane.queries import drains as rows
from controlplane.queries.drains import DrainRow

WHO = {"actor": "anna", "reason": "a test"}


class Looker:
    """Looks at every drain, a second later each time: the clock is ours, so that nothing has to wait."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self, times: int = 1) -> int:
        changed = 0
        for _ in range(times):
            self.now += 1.0
            changed += drains.check(self.now)
        return changed


def acknowledge(name: str = "g1", *, now: float | None = None) -> None:
    """What our gateway does when it has read the ledger up to its head."""
    at, moment = head(), time.time() if now is None else now
    gateways.acknowledge(name, at.ledger_id, at.revision, moment)


def join(name: str = "g1", *, lease: float = 600.0) -> None:
    gateways.join(name, "", lease, time.time())


def the_drain(instance: str = "prefill-a", group: int = -1) -> DrainRow:
    found = rows.newest_of(instance, group)
    assert found is not None
    return found


def bind(room: int, dp: int, *, until: float, instance: str = "prefill-a") -> None:
    """As the bootstrap process binds a room, until a moment of the test's clock."""
    id_ = Instance.objects.using(FACTS).get(name=instance).pk
    RoomBinding.objects.using(TRAFFIC).create(instance_id=id_, room=room, dp=dp, expires_ms=round(until * 1000))


def events(*kinds: str, instance: str = "prefill-a"):
    return [event for event in latest(500, instance=instance) if event.kind in kinds]
