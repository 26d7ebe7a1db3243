"""Whether another launch stands where a room's prefill was: asked of the directory when a rank of it hung up and is back."""

from __future__ import annotations

import threading
import time

from workers.sdk import Client, Place, Question, Resolved, WorkerError

ASK_SECONDS = 1.0
FRESH_SECONDS = 0.4
"""All the rooms of one prefill ask at once; one question answers them. Less than `losing.AGAIN_SECONDS`."""
MOST_KEPT = 64


class Replaced:
    """For any number of threads. What cannot be asked is no answer: the rooms keep their own bound."""

    def __init__(self, client: Client, question: Question) -> None:
        self._client, self._question = client, question
        self.fresh_seconds = FRESH_SECONDS
        self._lock = threading.Lock()
        self._kept: dict[tuple[Place | None, str], tuple[float, str]] = {}

    def why(self, place: Place | None, before: Resolved) -> str:
        """What the launch is that answers for `before` now, in words; empty while it is the same, or nobody can say."""
        key = (place, before.identity)
        with self._lock:
            at, said = self._kept.get(key, (float("-inf"), ""))
            if time.monotonic() - at >= self.fresh_seconds:
                said = self._ask(place, before)
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = (time.monotonic(), said)
            return said

    def _ask(self, place: Place | None, before: Resolved) -> str:
        try:
            self._client.invalidate(before)
            return other(before, self._client.resolve(self._question, place=place, within=ASK_SECONDS))
        except WorkerError:
            return ""


def other(before: Resolved, now: Resolved) -> str:
    """How `now` is another launch than `before`; empty when it is the same."""
    if before.launch is not None and now.launch is not None:
        if (before.launch, before.token) == (now.launch, now.token):
            return ""
        return f"launch {now.launch} is there now, not launch {before.launch}"
    return "" if before.identity == now.identity else "its ranks have other addresses now"
