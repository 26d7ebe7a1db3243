"""The engine-info door: sessions and weights dictionaries, under SGLang's paths and the loader's."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from controlplane.access.gates import Gate
from controlplane.domain.engines import EngineEntry
from controlplane.domain.errors import Refused
from controlplane.probes.mooncake import may_ask
from controlplane.probes.networks import ProbePolicy
from controlplane.protocol import engine_info
from controlplane.protocol.engine_info import Publication, Unreadable
from controlplane.protocol.replies import ENGINE_NOT_FOUND, OK, Reply, engine_method

from .door import Door
from .kv_door import Adopt, Ready
from .operations import PublishEngine
from .recorder import Recorder
from .request import Request
from .tenancy import bare_path

READ_PATHS = (
    "/get_transfer_engine_info",
    "/remote_instance_transfer_engine_info",
    "/get_remote_instance_transfer_engine_info",
)
LARGE_BODY = 256 * 1024
PREPARED_BYTES = 256 * 2**20

Parse = Callable[[bytes], Awaitable[Publication]]
FetchBody = Callable[[str], Awaitable[bytes | None]]


class Prepared:
    """Finished answers, bounded by their bytes; the least recently asked goes first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._answers: OrderedDict[tuple[str, int, str], Reply] = OrderedDict()
        self._held = 0

    def get(self, key: tuple[str, int, str]) -> Reply | None:
        reply = self._answers.get(key)
        if reply is not None:
            self._answers.move_to_end(key)
        return reply

    def put(self, key: tuple[str, int, str], reply: Reply) -> None:
        if len(reply.body) > self._limit:
            return
        self._answers[key] = reply
        self._held += len(reply.body)
        while self._held > self._limit:
            _, gone = self._answers.popitem(last=False)
            self._held -= len(gone.body)


class EngineDoor(Door):
    """Parse, call, answer."""

    def __init__(
        self,
        *args: Any,
        recorder: Recorder,
        parse: Parse,
        fetch_body: FetchBody,
        policy: ProbePolicy,
        adopt: Adopt,
        ready: Ready,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.recorder = recorder
        self.parse = parse
        self.policy = policy
        self.fetch_body = fetch_body
        self.adopt = adopt
        self.ready = ready
        self.prepared = Prepared(PREPARED_BYTES)

    @property
    def reading(self) -> Gate:
        return self.guard.gates.engine_info

    def refusal(self, refused: Refused) -> Reply:
        return refused.reply if isinstance(refused, Unreadable) else engine_info.refusal(refused)

    async def answer(self, request: Request) -> Reply:
        path, method = bare_path(request.head.path), request.head.method
        if path in READ_PATHS:
            return await self.get_info(request) if method == "GET" else engine_method("GET")
        if path == "/register_transfer_engine_info":
            return await self.register(request) if method == "PUT" else engine_method("PUT")
        if path in ("/health", "/livez"):
            if path == "/health":
                self.guard.admit(self.guard.gates.read, request, str)
            return OK if method == "GET" else engine_method("GET")
        if path == "/readyz":
            return self.ready()
        return ENGINE_NOT_FOUND

    async def register(self, request: Request) -> Reply:
        self.check_writer(request)
        body = await self.body(request)
        engine_info.check_body(body)
        publication = await self.parse(body) if len(body) > LARGE_BODY else engine_info.read_publication(body)
        del body
        self.tally.publications += 1
        # Again: a large body takes a while, and a token may be revoked, or another instance be meant, meanwhile.
        self.check_writer(request)
        probeable = may_ask(self.policy, publication.session, source=request.source)
        said = self.meant(request)
        instance = said.instance if said.instance is not None else await self.adopt(said.name, publishes_only=True)
        operation = PublishEngine(instance, publication, probeable=probeable)
        await self.recorder.submit(operation)
        if operation.refused is not None:
            self.tally.refuse(operation.refused.code)
        return operation.reply

    async def get_info(self, request: Request) -> Reply:
        alike = self.check_reader(request)
        try:
            rank = engine_info.read_rank_query(request.head.query)
        except Unreadable as bad:
            self.tally.refuse(bad.code)
            return bad.reply
        self.tally.lookups += 1
        said = self.meant(request)
        if said.instance is None and said.named:
            raise Refused(f"no instance is named {said.name}", code="not_found")
        instance = said.instance
        while instance is not None and not instance.retired:
            entry = instance.engines.live.get(rank)
            if entry is None:
                break
            reply = await self.prepare(rank, entry)
            if instance.engines.live.get(rank) is not entry:
                # It was replaced while its dictionary was being fetched.
                continue
            if reply is None:
                break
            # What a token opened is asked for again each time: it may be revoked, or expire, meanwhile.
            memoed = request.connection.remember(reply) if alike else None
            if memoed is not None:
                instance.unlearn.append(memoed)
            return reply
        self.tally.miss("engine_info", "unknown")
        return engine_info.no_info(rank)

    async def prepare(self, rank: int, entry: EngineEntry) -> Reply | None:
        """The finished answer for one published session; None when its dictionary is not stored any more."""
        key = (entry.digest, rank, entry.session)
        reply = self.prepared.get(key)
        if reply is None:
            compressed = await self.fetch_body(entry.digest)
            if compressed is None:
                return None
            reply = await _answer(rank, entry.session, compressed)
            self.prepared.put(key, reply)
        return reply


async def _answer(rank: int, session: str, compressed: bytes) -> Reply:
    if len(compressed) < LARGE_BODY:
        return engine_info.info_answer(rank, session, compressed)
    return await asyncio.to_thread(engine_info.info_answer, rank, session, compressed)
