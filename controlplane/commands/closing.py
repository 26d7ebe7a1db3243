"""End a drain: who ended it, how it ended, and whether what it drained could be deleted."""

from __future__ import annotations

import time

from controlplane.databases import FACTS
from controlplane.domain.drain import Progress, Sign, safe_to_delete, step
from controlplane.ledger.append import NewEvent
from controlplane.models import ALL_GROUPS, Drain, Launch

SIGNS = {"cancelled": Sign.CANCEL, "forced": Sign.FORCE}


def end_drain(drain: Drain, result: str, why: str, actor: str, reason: str, *, at: float | None = None) -> NewEvent:
    """`result` is cancelled, forced or drained; of these only drained leaves the progress as it is."""
    progress = Progress(drain.progress)
    if result in SIGNS:
        progress = step(progress, SIGNS[result])
    Drain.objects.using(FACTS).filter(pk=drain.pk, ended_at=None).update(
        progress=progress,
        ended_at=time.time() if at is None else at,
        ended_reason=f"{why}: {reason}" if reason else why,
    )
    data = {
        "drain": drain.pk,
        "dp": None if drain.group == ALL_GROUPS else drain.group,
        "result": result,
        "launch": drain.launch,
        "safe_to_delete": safe_to_delete(progress, drain.launch, current_launch(drain.instance_id)),
    }
    return NewEvent("drain.ended", drain.instance, data, actor, reason)


def current_launch(instance_id: int) -> int | None:
    current = Launch.objects.using(FACTS).filter(instance_id=instance_id, state=Launch.State.CURRENT, ended_at=None)
    return current.values_list("number", flat=True).first()
