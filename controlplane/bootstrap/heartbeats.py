"""A heartbeat as an operation: the lease of its worker process, and what that process should do."""

from __future__ import annotations

from controlplane.ledger.writes import Writes
from controlplane.protocol.heartbeat import Heartbeat, answer

from .fleet import Instance
from .recorder import Operation, Staged


class Beat(Operation):
    """Stores the lease; asks for a registration again when the directory lacks a slot the worker holds."""

    __slots__ = ("beat",)

    def __init__(self, instance: Instance, beat: Heartbeat) -> None:
        super().__init__(instance)
        self.beat = beat

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        beat, instance = self.beat, self.instance
        slots = " ".join(".".join(map(str, slot)) for slot in beat.slots)
        writes.leases[beat.worker] = (
            beat.worker,
            instance.id,
            beat.token,
            slots,
            now,
            now + beat.lease_seconds,
        )
        directives: list[dict[str, object]] = []
        lost = [slot for slot in beat.slots if not _holds(staged, slot, beat.token, instance.reregister_before)]
        if lost and not instance.retired:
            directives.append({"do": "register", "slots": [list(slot) for slot in lost]})
        groups = instance.draining
        if instance.intent in ("draining", "retired") or any(slot.dp in groups for slot in beat.slots):
            directives.append({"do": "drain"})
        current = staged.directory.current
        self.reply = answer(directives, current.number if current else None)


def _holds(staged: Staged, slot: tuple[int, ...], token: str | None, seen_since: float) -> bool:
    """Whether a launch that can be the worker's has somebody in the slot, seen since re-registration was asked for."""
    for launch in staged.directory.launches():
        row = launch.rows.get(slot)  # type: ignore[call-overload]
        if row is not None and (token is None or launch.token in (None, token)) and row.seen_at >= seen_since:
            return True
    return False
