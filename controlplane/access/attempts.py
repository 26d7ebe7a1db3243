"""The audit: who tried to change what, from where and why, and whether it was allowed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import structlog
from django.db import transaction

from controlplane.access.roles import Who
from controlplane.databases import FACTS, READER
from controlplane.floodgate import FloodGate
from controlplane.models.access import Attempt

log = structlog.get_logger(__name__)

LONGEST_TEXT = 2000
LONGEST_REQUEST_ID = 64
KEPT_SECONDS = 90 * 86_400.0
AT_ONCE = 500

# Whoever is refused can try again without end; whoever is allowed is known, and all of theirs is kept.
_gate = FloodGate(per_source=60, per_kind=600, window_seconds=60.0)
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt, as it is kept. `at` in seconds since the epoch; `status` is HTTP's, 0 where there is none."""

    id: int
    at: float
    actor: str
    via: str
    source: str
    action: str
    target: str
    reason: str
    allowed: bool
    status: int
    outcome: str
    request_id: str


def note(
    who: Who,
    action: str,
    target: str,
    *,
    allowed: bool,
    status: int,
    reason: str = "",
    outcome: str = "",
    request_id: str = "",
) -> None:
    """Keep one attempt, each text cut to what its column holds. Never raises: the attempt itself matters more.

    Refused ones of one source are kept 60 times a minute; the next one that is kept says how many were not.
    """
    try:
        now = time.time()
        if not allowed:
            with _lock:
                heard = _gate.admit(who.source or who.name, "refused", now=now)
            if not heard.admitted:
                return
            if heard.suppressed:
                outcome = f"{outcome} ({heard.suppressed} more before it were not kept)"
        # A savepoint, where there is a transaction: what fails here must not take the caller's work with it.
        with transaction.atomic(using=FACTS):
            Attempt.objects.using(FACTS).create(
                at=now,
                actor=_cut(who.name or "anonymous", 150),
                via=_cut(who.via, 10),
                source=_cut(who.source, 64),
                action=_cut(action, 60),
                target=_cut(target, 200),
                reason=_cut(reason, LONGEST_TEXT),
                allowed=allowed,
                status=max(0, min(int(status), 32_767)),
                outcome=_cut(outcome, LONGEST_TEXT),
                request_id=_cut(request_id, LONGEST_REQUEST_ID),
            )
    except Exception as problem:
        log.error("attempt_not_kept", actor=who.name, action=action, target=target, problem=type(problem).__name__)


def listing(
    *,
    limit: int = 100,
    before: int | None = None,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    allowed: bool | None = None,
) -> list[AttemptRow]:
    """The newest first; `before` is the id of the last one already seen."""
    given = {"id__lt": before, "actor": actor, "action": action, "target": target, "allowed": allowed}
    rows = Attempt.objects.using(READER).filter(**{key: value for key, value in given.items() if value is not None})
    columns = AttemptRow.__dataclass_fields__
    return [AttemptRow(*values) for values in rows.order_by("-id").values_list(*columns)[:limit]]


def delete_old(*, now: float, kept_seconds: float = KEPT_SECONDS) -> int:
    """Forget what is older, a piece at a time, so that others can write between two of them; how many there were."""
    rows, gone = Attempt.objects.using(FACTS), 0
    while old := list(rows.filter(at__lt=now - kept_seconds).order_by("id").values_list("pk", flat=True)[:AT_ONCE]):
        gone += rows.filter(pk__in=old).delete()[0]
    return gone


def _cut(text: str, limit: int) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair, and short enough."""
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
