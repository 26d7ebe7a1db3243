"""The sessions of one instance's engine info: those that are served, by rank, those in conflict, and those that ended."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.models import EngineBody, EngineInfo

from .engine_info import SessionRow, sessions

PAGE = 100


@dataclass(frozen=True, slots=True)
class SessionPage:
    """`next` asks for the rest, empty at the end."""

    rows: tuple[SessionRow, ...]
    next: str


def present(instance_id: int, *, after: str = "", limit: int = PAGE) -> SessionPage:
    """Live sessions and conflicts in the order of their ranks. Raises Refused (malformed) for a cursor of nobody."""
    rank, epoch = _cursor(after)
    rows = EngineInfo.objects.using(READER).filter(instance_id=instance_id).exclude(state=EngineInfo.State.RETIRED)
    if after:
        rows = rows.filter(rank__gte=rank).exclude(rank=rank, epoch__lte=epoch)
    found = [SessionRow(*values) for values in rows.order_by("rank", "epoch").values_list(*COLUMNS)[: limit + 1]]
    shown = tuple(found[:limit])
    return SessionPage(shown, f"{shown[-1].rank}.{shown[-1].epoch}" if len(found) > limit else "")


def ended(instance_id: int, *, after: str = "", limit: int = PAGE) -> SessionPage:
    """Sessions that ended, those that were published last first."""
    before = _number(after) if after else None
    found = sessions(instance_id, state=EngineInfo.State.RETIRED.value, before=before, limit=limit + 1)
    shown = tuple(found[:limit])
    return SessionPage(shown, str(shown[-1].id) if len(found) > limit else "")


def session(instance_id: int, rank: int, epoch: int) -> SessionRow:
    """One session, whatever became of it. Raises Refused (not_found)."""
    found = EngineInfo.objects.using(READER).filter(instance_id=instance_id, rank=rank, epoch=epoch)
    values = found.values_list(*COLUMNS).first()
    if values is None:
        raise Refused(f"no session of rank {rank} has epoch {epoch} there; old ones are forgotten", code="not_found")
    return SessionRow(*values)


def sharing(instance_id: int, digest: str) -> int:
    """How many sessions of the instance, ended ones aside, publish exactly this dictionary."""
    rows = EngineInfo.objects.using(READER).filter(instance_id=instance_id, digest=digest)
    return rows.exclude(state=EngineInfo.State.RETIRED).count()


def stored(digest: str) -> tuple[bytes, int] | None:
    """The dictionary as it is stored, compressed, and its size in bytes as JSON; None when it is kept no more."""
    found = EngineBody.objects.using(READER).filter(digest=digest).values_list("compressed", "size_bytes").first()
    return (bytes(found[0]), int(found[1])) if found is not None else None


COLUMNS = tuple(SessionRow.__dataclass_fields__)


def _cursor(after: str) -> tuple[int, int]:
    if not after:
        return 0, 0
    rank, dot, epoch = after.partition(".")
    if not dot:
        raise Refused("after must be what an earlier page gave as next", code="malformed")
    return _number(rank), _number(epoch)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused("after must be what an earlier page gave as next", code="malformed")
    return int(text)
