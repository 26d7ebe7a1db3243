"""Looks at observed instances, again and again, beside the wire: what their own servers tell becomes registration here."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import structlog

from controlplane.domain.errors import Refused
from controlplane.domain.moments import set_right
from controlplane.domain.observing import MOMENTS, Memory, State, ranks_of, restored, sentence, wants_weights, weighed
from controlplane.probes.mooncake import may_ask
from controlplane.probes.observed import Asker
from controlplane.protocol.engine_info import Publication, read_publication

from .complaints import Complaints
from .fleet import Fleet, Instance
from .looking import Looker, Pace
from .mirroring import Listing, Mirror
from .operations import PublishEngine
from .recorder import NOT_STORED, Recorder

log = structlog.get_logger()

LOOK_SECONDS = 1.0
AT_ONCE = 16
KEEP_SECONDS = 15.0
"""The age of what is stored is never wrong by more than this."""

LARGE_BODY = 256 * 1024
UNPUBLISHED = 8
"""So many ranks in a row without weights are the last ones, where nobody knows how many there are."""

STORED = "SELECT id, observation FROM controlplane_instance WHERE observation <> ''"

Parse = Callable[[bytes], Awaitable[Publication]]


class Observer:
    """One per leader. Many instances are looked at less often: all of them share one pace."""

    def __init__(self, fleet: Fleet, recorder: Recorder, asker: Asker, complaints: Complaints, *, parse: Parse) -> None:
        self._fleet = fleet
        self._recorder = recorder
        self._asker = asker
        self._complaints = complaints
        self._parse = parse
        self._pace = Pace()
        self._looker = Looker(asker, self._pace)
        self._memories: dict[int, Memory] = {}
        self._kept: dict[int, tuple[Memory, float]] = {}
        self._looks: dict[int, asyncio.Task[str]] = {}
        self._due: dict[int, float] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        # One dictionary at a time: they may be large.
        self._weighing = asyncio.Lock()

    async def run(self, load: Callable[[str], Awaitable[list[tuple[Any, ...]]]]) -> None:
        try:
            self._memories = {id_: restored(text) for id_, text in await load(STORED)}
        except Exception as problem:
            # What was known only spares a few questions.
            log.warning("observations_not_read", problem=str(problem)[:300])
        while True:
            now = time.monotonic()
            for instance in self._fleet.observed:
                if now >= self._due.get(instance.id, 0.0):
                    self._look(instance)
            await asyncio.sleep(LOOK_SECONDS / 5)

    async def fresh(self, instance: Instance) -> tuple[bool, str]:
        """Read everything of an instance now: whether that went well, and what is known of its servers."""
        running = self._looks.get(instance.id)
        if running is not None:
            await asyncio.wait([running])
        problem = await self._look(instance, fresh=True)
        memory = self._memory(instance)
        return memory.state is State.LISTED and not problem, problem or sentence(memory)

    async def close(self) -> None:
        looks = list(self._looks.values())
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    def _look(self, instance: Instance, *, fresh: bool = False) -> asyncio.Task[str]:
        running = self._looks.get(instance.id)
        if running is not None:
            return running
        look = asyncio.create_task(self._look_once(instance, fresh=fresh), name=f"observe {instance.name}")
        self._looks[instance.id] = look

        def finished(done: asyncio.Task[str]) -> None:
            self._looks.pop(instance.id, None)
            self._due[instance.id] = time.monotonic() + LOOK_SECONDS * random.uniform(0.9, 1.1)
            if not done.cancelled() and done.exception() is not None:
                log.error("observation_failed", instance=instance.name, problem=repr(done.exception()))

        look.add_done_callback(finished)
        return look

    async def _look_once(self, instance: Instance, *, fresh: bool) -> str:
        """Returns what went wrong, as a sentence."""
        async with self._places:
            before = self._memory(instance)
            memory, listing = await self._looker.look(instance, before, fresh=fresh)
            problem = await self._mirror(instance, memory, before, listing)
            if fresh and memory.shape is not None and listing is None:
                problem = problem or f"{memory.at} changed, or stopped answering, while it was read"
            if instance.observed.info_url and memory.state is State.LISTED:
                memory = self._memory(instance)
                if fresh or wants_weights(memory, instance.engines.live.keys(), time.time()):
                    problem = await self._weights(instance, memory) or problem
            return problem

    def _memory(self, instance: Instance) -> Memory:
        at = instance.observed.url or instance.observed.info_url
        known = self._memories.get(instance.id)
        if known is None or known.at != at:
            known = self._memories[instance.id] = Memory(at=at, since=time.time())
        return set_right(known, MOMENTS, time.time())

    async def _mirror(self, instance: Instance, memory: Memory, before: Memory, listing: Listing | None) -> str:
        """Record what is new; nothing when nothing is."""
        gone = ""
        if before.state is State.LISTED and memory.state in (State.REFUSED, State.FILLING):
            gone = sentence(memory)
        kept, kept_at = self._kept.get(instance.id, (None, 0.0))
        now = time.monotonic()
        if listing is None and kept is not None and _says(kept) == _says(memory) and now - kept_at < KEEP_SECONDS:
            self._memories[instance.id] = memory
            return ""
        mirror = Mirror(instance, memory, before=before, listing=listing, gone=gone)
        await self._recorder.submit(mirror)
        if mirror.reply is NOT_STORED:
            # The next look does it again, and sees what turned once more.
            return "what was read could not be stored; try again"
        self._memories[instance.id] = mirror.memory
        self._kept[instance.id] = (mirror.memory, now)
        if mirror.problem:
            self._complaints.about(instance, "what was read", memory.at, Refused(mirror.problem, code="conflict"))
        return mirror.problem

    async def _weights(self, instance: Instance, memory: Memory) -> str:
        """Every rank's published weights."""
        total = ranks_of(memory.shape[0] if memory.shape else None, memory.said)
        published: set[int] = set()
        problem, rank, absent = "", 0, 0
        while not problem and (rank < total if total is not None else absent < UNPUBLISHED):
            try:
                there = await self._weights_of(instance, rank)
            except Refused as refused:
                problem = refused.sentence
                break
            absent = 0 if there else absent + 1
            if there:
                published.add(rank)
            rank += 1
        if problem:
            memory = replace(memory, weighed_at=time.time(), whole=False)
        else:
            memory = weighed(memory, frozenset(published), total, time.time())
        self._memories[instance.id] = memory
        return problem

    async def _weights_of(self, instance: Instance, rank: int) -> bool:
        """Whether it published some. Raises Refused when that could not be told, or not be stored."""
        url = instance.observed.info_url
        await self._pace.turn()
        async with self._weighing:
            body = await self._asker.weights(url, rank)
            if body is None:
                return False
            publication = await self._parse(body) if len(body) > LARGE_BODY else read_publication(body)
        source = await self._looker.source(url)
        probeable = may_ask(self._asker.allowed, publication.session, source=source)
        operation = PublishEngine(instance, publication, probeable=probeable, observed=True)
        await self._recorder.submit(operation)
        if operation.reply.status != 200:
            raise Refused(f"the weights of rank {rank} could not be stored", code="unavailable")
        return True


def _says(memory: Memory) -> tuple[object, ...]:
    """What is stored of it, but for its age."""
    return (memory.at, memory.state, memory.why, memory.count, memory.identity, memory.bound, memory.said)
