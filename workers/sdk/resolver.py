"""Resolves prefills for a decode: asked once for all who wait, kept while it holds, and never let one place hold up another."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from .backoff import Backoff
from .errors import Closed, NotAllowed, NotFound, NotReady, Overloaded, Refusal, TimedOut, Unreachable, WorkerError
from .keeping import PLAIN_NOT_FOUND
from .places import Place
from .resolved import Question, Resolved
from .servers import ControlPlane
from .watching import Watcher
from .ways import API_PATH, DOOR_PATH, in_one, rank_by_rank, still_there
from .wire import Wire

log = logging.getLogger(__name__)

ASK_SECONDS = 5.0
WHOLE_SECONDS = 10.0
STALE_SECONDS = 1.0
"""So long is waited for a confirmation of what is known already."""

SKIP_SECONDS = 60.0
MOST_KEPT = 4096
MOST_WAITING = 1024
SULK = Backoff(0.25, 2.0)

Key = tuple[str, str | None, Question]


@dataclass(slots=True)
class _Kept:
    """An answer, when it was last confirmed, and the watcher's mark from just before it was asked for."""

    resolved: Resolved
    at: float
    mark: int | None
    turn: int = 0


@dataclass(slots=True)
class _Sulk:
    """A place that did not answer: until when it is not asked again, and how long it will be next time."""

    problem: Unreachable
    until: float
    pause: float


class Resolver:
    """For one event loop. `max_age`: seconds for which an answer that no watcher vouches for is used unasked."""

    def __init__(
        self,
        wire: Wire,
        control_plane: ControlPlane,
        *,
        watcher: Watcher | None = None,
        max_age: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wire, self._own, self._watcher = wire, control_plane, watcher
        self._max_age, self._clock = max_age, clock
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Resolved]] = {}
        self._waiting: dict[str, int] = {}
        self._sulks: OrderedDict[str, _Sulk] = OrderedDict()
        self._skips: dict[tuple[str, str], float] = {}
        self.asked = 0
        """How often a server was asked, whatever it took."""

    async def resolve(
        self,
        question: Question,
        *,
        place: Place | None = None,
        instance: str | None = None,
        within: float = ASK_SECONDS,
    ) -> Resolved:
        """What this decode needs of a prefill: of `instance` at our control plane, or at the `place` that a request names.

        Raises, within so many seconds: Unreachable (naming the address; at once while it is known not to answer),
        NotReady (not all ranks are there, or it changes just now), NotFound, Incompatible or Disagreement (the pair cannot
        work), Overloaded. A place that hangs holds up nobody who asks for another one.
        """
        at = self._own.asked_about(place) if place is not None else self._own
        name = instance if instance is not None else at.instance
        at = ControlPlane(at.kv, at.engine, at.api, name, at.token)
        key = (str(at.kv) + at.kv.prefix, name, question)
        kept = self._kept.get(key)
        if kept is not None and self._holds(at, kept):
            self._kept.move_to_end(key)
            return kept.resolved
        self._check_sulk(key, kept)
        if kept is not None and key[0] in self._sulks and self._sulks[key[0]].until > self._clock():
            return kept.resolved
        if kept is None:
            return await self._join(key, at, within)
        try:
            return await self._join(key, at, min(within, STALE_SECONDS))
        except (TimedOut, Overloaded):
            # Whoever is slow is asked on; nobody who has an answer waits for that.
            if self._kept.get(key) is not kept:
                raise
            return kept.resolved

    async def until_ready(
        self, question: Question, *, place: Place | None = None, instance: str | None = None, within: float
    ) -> Resolved:
        """The same, asked again while the prefill is not ready or not there yet, for at most `within` seconds."""
        end, pauses = self._clock() + within, Backoff(0.1, 1.0).pauses()
        while True:
            left = end - self._clock()
            try:
                return await self.resolve(
                    question, place=place, instance=instance, within=max(0.05, min(left, ASK_SECONDS))
                )
            except (NotReady, Unreachable, NotFound):
                pause = next(pauses)
                if self._clock() + pause >= end:
                    raise
            await asyncio.sleep(pause)

    def invalidate(self, failed: Resolved) -> bool:
        """What `failed` says did not hold (a rank refused, a transfer broke): it is not used again. A newer answer that
        somebody fetched meanwhile stays; then this is False."""
        gone = [key for key, kept in self._kept.items() if kept.resolved is failed or _same(kept.resolved, failed)]
        for key in gone:
            del self._kept[key]
        return bool(gone)

    def close(self) -> None:
        for task in self._asking.values():
            task.cancel()

    def _holds(self, at: ControlPlane, kept: _Kept) -> bool:
        if self._watcher is not None and at.kv == self._own.kv and self._watcher.vouches_for(at.instance, kept.mark):
            return True
        return self._clock() - kept.at < self._max_age

    def _check_sulk(self, key: Key, kept: _Kept | None) -> None:
        sulk = self._sulks.get(key[0])
        if sulk is not None and kept is None and self._clock() < sulk.until:
            raise type(sulk.problem)(
                sulk.problem.where, f"{sulk.problem.reason} (a moment ago; it is tried again soon)"
            )

    async def _join(self, key: Key, at: ControlPlane, within: float) -> Resolved:
        waiting = self._waiting.get(key[0], 0)
        if waiting >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} requests wait for {at.kv} already")
        self._waiting[key[0]] = waiting + 1
        task = self._asking.get(key)
        try:
            if task is None:
                task = self._asking[key] = asyncio.create_task(self._ask(key, at))
                task.add_done_callback(lambda done: self._asked(key, done))
            async with asyncio.timeout(within):
                # Whoever gives up leaves it to the others.
                return await asyncio.shield(task)
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if task is not None and task.cancelled() and asking is not None and not asking.cancelling():
                raise Closed("this client was closed while it was asked") from None
            raise
        except TimeoutError:
            raise TimedOut(str(at.kv), f"it was not resolved within {within:g} s") from None
        finally:
            self._waiting[key[0]] -= 1
            if not self._waiting[key[0]]:
                del self._waiting[key[0]]

    def _asked(self, key: Key, task: asyncio.Task[Resolved]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()

    async def _ask(self, key: Key, at: ControlPlane) -> Resolved:
        kept = self._kept.get(key)
        mark = self._watcher.mark if self._watcher is not None else None
        self.asked += 1
        try:
            async with asyncio.timeout(WHOLE_SECONDS):
                resolved = await self._by_the_best_way(key[0], at, key[2], kept)
        except TimeoutError:
            problem: Unreachable = TimedOut(str(at.kv), f"it was not resolved within {WHOLE_SECONDS:g} s")
            return self._away(key, kept, problem)
        except Unreachable as problem:
            return self._away(key, kept, problem)
        except Refusal:
            self._kept.pop(key, None)
            raise
        self._sulks.pop(key[0], None)
        self._kept[key] = _Kept(resolved, self._clock(), mark, kept.turn + 1 if kept else 0)
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return resolved

    def _away(self, key: Key, kept: _Kept | None, problem: Unreachable) -> Resolved:
        """Nobody answers there: what is known goes on to be used, since ranks outlive the directory's own outages."""
        before = self._sulks.pop(key[0], None)
        pause = min(before.pause * 2, SULK.most) if before else SULK.first
        self._sulks[key[0]] = _Sulk(problem, self._clock() + pause, pause)
        if len(self._sulks) > MOST_KEPT:
            self._sulks.popitem(last=False)
        # Invalidated meanwhile: then it is known not to hold.
        if kept is None or self._kept.get(key) is not kept:
            raise problem
        log.warning("%s; what it told before is used on", problem.sentence)
        return kept.resolved

    async def _by_the_best_way(self, where: str, at: ControlPlane, question: Question, kept: _Kept | None) -> Resolved:
        known = kept.resolved if kept is not None and kept.resolved.launch is not None else None
        name = at.instance or ""
        for place, path in ((at.kv, DOOR_PATH), (at.api, API_PATH)):
            if place is None or self._skips.get((place.url(path), name), -1.0) > self._clock():
                continue
            try:
                return await in_one(self._wire, at, place, path, question, known, within=ASK_SECONDS)
            except (NotFound, NotAllowed, Unreachable, Refusal) as problem:
                if not _not_this_way(problem, path):
                    raise
                self._skips[place.url(path), name] = self._clock() + SKIP_SECONDS
                if len(self._skips) > 2 * MOST_KEPT:
                    self._skips.clear()
        if kept is not None and await still_there(self._wire, at, kept.resolved, kept.turn, within=ASK_SECONDS):
            return kept.resolved
        return await rank_by_rank(self._wire, at, question, within=ASK_SECONDS)


def _not_this_way(problem: WorkerError, path: str) -> bool:
    """Whether another way may still do: this one is not there, not allowed to us, or (the API alone) away."""
    if isinstance(problem, NotFound) or (isinstance(problem, Refusal) and problem.status == 405):
        said = problem.said
        return problem.status == 405 or said == PLAIN_NOT_FOUND or path == API_PATH
    if isinstance(problem, (NotAllowed, Unreachable)):
        return path == API_PATH
    return False


def _same(kept: Resolved, failed: Resolved) -> bool:
    return (kept.place, kept.instance, kept.identity) == (failed.place, failed.instance, failed.identity)
