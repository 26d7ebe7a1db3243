"""What is stale, and what stands against purging it: a live instance goes by an explicit override only."""

from __future__ import annotations

from .errors import Refused


def why_alive(name: str, *, retired: bool, answering: int) -> str:
    """Why a purge would hurt somebody, as a sentence; blank when it would not.

    >>> why_alive("a", retired=True, answering=0), why_alive("a", retired=True, answering=1)
    ('', '1 rank of a still answers')
    """
    if not retired:
        return f"{name} is not retired"
    if answering == 1:
        return f"1 rank of {name} still answers"
    return f"{answering} ranks of {name} still answer" if answering else ""


def check_purge(name: str, *, retired: bool, answering: int, override: bool) -> None:
    """Raises Refused (conflict)."""
    why = why_alive(name, retired=retired, answering=answering)
    if why and not override:
        what = "retire it first" if not retired else "stop the engine first"
        raise Refused(f"{why}: {what}, or override", code="conflict")
