"""What was asked for and takes time: requests to the bootstrap process, and drains. Each ends with its event."""

from __future__ import annotations

import re
from dataclasses import dataclass

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.models import Request

from . import drains
from .wording import slot_key

ID = re.compile(r"(request|drain)-([0-9]{1,18})")
RUNNING = "running"
DRAIN_STATES = {"drained": "succeeded", "forced": "forced", "cancelled": "cancelled"}


@dataclass(frozen=True, slots=True)
class OperationRow:
    """`state`: running, succeeded, refused, forced, cancelled. `group` None is the whole instance.

    `safe_to_delete` is about drains: only what was drained, and only while that launch is the current one.
    """

    id: str
    action: str
    instance: str
    group: int | None
    slot: str | None
    state: str
    sentence: str
    actor: str
    reason: str
    made_at: float
    ended_at: float | None
    blockers: tuple[str, ...] = ()
    safe_to_delete: bool | None = None

    @property
    def ended(self) -> bool:
        return self.state != RUNNING


def operation(id_: str, *, now: float) -> OperationRow:
    """By its id, such as `request-12` or `drain-5`. Raises Refused (not_found)."""
    found = ID.fullmatch(id_)
    if found is None:
        raise Refused(f"there is no operation {id_}", code="not_found")
    kind, number = found[1], int(found[2])
    if kind == "drain":
        return _of_drain(drains.drain(number), now=now)
    request = Request.objects.using(READER).filter(pk=number).first()
    if request is None:
        raise Refused(f"there is no operation {id_}", code="not_found")
    return _of_request(request)


def _of_request(row: Request) -> OperationRow:
    state = RUNNING
    if row.answered_at is not None:
        state = "succeeded" if row.granted else "refused"
    return OperationRow(
        id=f"request-{row.pk}",
        action=row.kind,
        instance=row.instance,
        group=None,
        slot=slot_key(Slot(*map(int, row.slot.split(".")))) if row.slot else None,
        state=state,
        sentence=row.answer or "the bootstrap process has not answered yet",
        actor=row.actor,
        reason=row.reason,
        made_at=row.made_at,
        ended_at=row.answered_at,
    )


def _of_drain(row: drains.DrainRow, *, now: float) -> OperationRow:
    # A drained one stays open, and can still turn out to hold new requests: it has ended until then.
    return OperationRow(
        id=f"drain-{row.id}",
        action="drain",
        instance=row.instance,
        group=row.group,
        slot=None,
        state=DRAIN_STATES.get(row.progress, RUNNING),
        sentence=drains.told(row, now=now)[0],
        actor=row.actor,
        reason=row.reason,
        made_at=row.started_at,
        ended_at=row.ended_at or (row.empty_at if row.progress == "drained" else None),
        blockers=row.blockers,
        safe_to_delete=row.safe_to_delete,
    )
