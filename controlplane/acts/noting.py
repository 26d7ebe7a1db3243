"""What is tried, for the audit: allowed or not, with the reason that was given."""

from __future__ import annotations

from structlog.contextvars import get_contextvars

from controlplane.access import attempts
from controlplane.access.roles import Who


def note(
    who: Who, action: str, target: str, *, status: int, outcome: str, reason: str = "", allowed: bool = True
) -> None:
    """Never raises."""
    attempts.note(
        who,
        action,
        target,
        allowed=allowed,
        status=status,
        reason=reason,
        outcome=outcome,
        request_id=str(get_contextvars().get("request_id", "")),
    )
