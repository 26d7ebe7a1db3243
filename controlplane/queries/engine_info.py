"""Published sessions of transfer-engine info, without their weights."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.databases import READER
from controlplane.models import EngineInfo


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session of one rank; at most one of a rank is live, a conflict is kept beside it."""

    id: int
    rank: int
    epoch: int
    session: str
    digest: str
    tensors: int
    total_bytes: int
    old_style: bool
    greeted: bool
    contact: str
    state: str
    at: float
    ended_at: float | None
    ended_reason: str


def sessions(instance_id: int, *, state: str | None = None, before: int | None = None, limit: int) -> list[SessionRow]:
    """The newest first, retired ones too; at most `limit`."""
    rows = EngineInfo.objects.using(READER).filter(instance_id=instance_id)
    if state:
        rows = rows.filter(state=state)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    columns = SessionRow.__dataclass_fields__
    return [SessionRow(*values) for values in rows.order_by("-pk").values_list(*columns)[:limit]]
