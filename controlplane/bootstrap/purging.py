"""Ends an instance for good: its ranks leave, its sessions end, and its row goes, in one transaction with the event."""

from __future__ import annotations

from controlplane.domain import orders
from controlplane.domain.directory import Directory
from controlplane.domain.engines import retire_before
from controlplane.domain.errors import Refused
from controlplane.domain.stale import check_purge
from controlplane.ledger.writes import Writes

from .fleet import Instance
from .operations import Requested
from .recorder import Staged

# What knows it by number only, ended launches among them, is archived or swept by the clockwork: by this name.
KEEP_NAME = """
INSERT INTO controlplane_purgedinstance
 (instance_id, name, role, created_at, retired_at, purged_at, actor, reason, override)
SELECT id, name, role, created_at, retired_at, %s, %s, %s, %s FROM controlplane_instance WHERE id = %s"""
OTHERS = """
UPDATE controlplane_request SET answered_at = %s, granted = FALSE, answer = %s
WHERE instance = %s AND answered_at IS NULL AND id <> %s"""
DROP_BREAKERS = "DELETE FROM controlplane_breaker WHERE instance = %s"
DROP = "DELETE FROM controlplane_instance WHERE id = %s"


class Purge(Requested):
    """The end of a retired instance, although ranks answer if that is overridden."""

    __slots__ = ("answering", "override")

    def __init__(
        self, instance: Instance, *, request: int, override: bool, answering: int, actor: str, reason: str
    ) -> None:
        """`answering`: how many of its ranks answered just now."""
        super().__init__(instance, request=request, kind="purge", actor=actor, reason=reason)
        self.answering = answering
        self.override = override

    def carry_out(self, staged: Staged, writes: Writes, now: float) -> str:
        """Raises Refused while ranks answer, unless that is overridden; then nothing is staged."""
        instance, name = staged.instance, staged.instance.name
        if not instance.retired:
            # Added again meanwhile: not even an override meant that.
            raise Refused(f"{name} is not retired any more; nothing was purged", code="conflict")
        check_purge(name, retired=True, answering=self.answering, override=self.override)
        by = {"actor": self.actor, "reason": self.reason}
        why = f"purged by {self.actor}" + (f": {self.reason}" if self.reason else "")
        if any(launch.rows for launch in staged.directory.launches()):
            staged.apply(orders.evict(staged.directory, None, why=why, now=now), writes, now, **by)
        staged.engines, retired = retire_before(staged.engines, now + 1, why)
        writes.add_engine(instance.id, name, retired, now)
        staged.directory = Directory(name)
        writes.last += [
            (KEEP_NAME, (now, self.actor, self.reason, self.override, instance.id)),
            (OTHERS, (now, f"{name} was purged", name, self.request)),
            (DROP_BREAKERS, (name,)),
            (DROP, (instance.id,)),
        ]
        data = {
            "name": name,
            "id": instance.id,
            "role": instance.role,
            "answering": self.answering,
            "override": self.override,
        }
        writes.note_plain(name, "instance.purged", data, now, **by)
        return f"{name} was purged; its launches are in the archive"
