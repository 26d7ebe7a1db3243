"""What a decode tells of its rooms: how far each came, and of which prefill it is, also when that could not be asked."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from workers.sdk import (
    Client,
    Disagreement,
    Incompatible,
    NotFound,
    NotReady,
    Place,
    Resolved,
    Unreachable,
    WorkerError,
)

UNRESOLVED: tuple[tuple[type[WorkerError], str], ...] = (
    (Unreachable, "unreachable"),
    (NotReady, "not_ready"),
    (NotFound, "not_found"),
    (Disagreement, "incompatible"),
    (Incompatible, "incompatible"),
    (WorkerError, "failed"),
)
"""In one word, why nobody could say who has the KV."""

MOST_NAMES = 1024


class Telling:
    """For any number of threads. Nothing is raised: a request never fails for want of evidence."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        # By what the prefills are known that were resolved at each server. The oldest go first.
        self._names: dict[Place, str] = {}

    def note(self, room: int, prefill: Resolved, rung: str, result: str = "passed", **more: Any) -> None:
        if prefill.known_as is not None:
            with suppress(WorkerError):
                self._client.note(room, prefill.known_as, rung, result, **more)

    def resolved(self, place: Place | None, prefill: Resolved) -> None:
        """Remember who answers there."""
        if place is None or prefill.known_as is None:
            return
        with self._lock:
            self._names.pop(place, None)
            self._names[place] = prefill.known_as
            if len(self._names) > MOST_NAMES:
                del self._names[next(iter(self._names))]

    def could_not_resolve(self, room: int, place: Place | None, problem: WorkerError, *, took: float) -> None:
        """Whose room it is, the request itself says, or who was there when it could last be asked, or that address alone."""
        if place is None:
            return
        with self._lock:
            name = place.instance or self._names.get(place) or str(place)
        why = next(word for kind, word in UNRESOLVED if isinstance(problem, kind))
        with suppress(WorkerError):
            self._client.note(room, name, "resolved", why, detail=problem.sentence, took=took)
