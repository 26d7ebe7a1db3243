"""A heartbeat as an operation: the lease of its worker process, and what that process should do."""

from __future__ import annotations

from controlplane.domain.worker_leases import WorkerLease, came_back, holds
from controlplane.ledger.writes import Writes
from controlplane.protocol.heartbeat import Heartbeat, answer

from .fleet import Fleet, Instance
from .lateness import stored
from .recorder import Operation, Staged


class Beat(Operation):
    """Stores the lease; asks for a registration again when the directory lacks a slot the worker holds."""

    __slots__ = ("beat", "fleet")

    def __init__(self, instance: Instance, beat: Heartbeat, fleet: Fleet) -> None:
        super().__init__(instance)
        self.beat, self.fleet = beat, fleet

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        beat, instance, leases = self.beat, self.instance, self.fleet.leases
        leases.check_room_for(beat.worker)
        leases.hear(beat.worker, beat.lease_seconds)
        before = staged.leases.get(beat.worker, leases.get(beat.worker))
        lease = WorkerLease(beat.worker, instance.id, beat.token, beat.slots, now, beat.lease_seconds)
        staged.leases[beat.worker] = lease
        writes.leases[beat.worker] = stored(lease)
        # That it is late was told of the instance where it was then.
        at = self.fleet.by_id.get(before.instance) if before is not None else None
        if at is not None and (back := came_back(before, now)) is not None:
            writes.note_plain(at.name, back.kind, back.data, now)
        directives: list[dict[str, object]] = []
        since = instance.reregister_before
        lost = [slot for slot in beat.slots if not holds(staged.directory, slot, beat.token, seen_since=since)]
        if lost and not instance.retired:
            directives.append({"do": "register", "slots": [list(slot) for slot in lost]})
        groups = instance.draining
        if instance.intent in ("draining", "retired") or any(slot.dp in groups for slot in beat.slots):
            directives.append({"do": "drain"})
        current = staged.directory.current
        self.reply = answer(directives, current.number if current else None, instance.intent)
