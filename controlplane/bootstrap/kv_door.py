"""The KV bootstrap door: SGLang's four paths, our heartbeats, and our own liveness."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from controlplane.domain.errors import Refused
from controlplane.domain.health import health_status
from controlplane.probes.networks import ProbePolicy
from controlplane.protocol import heartbeat, kv, replies, resolving
from controlplane.protocol.replies import KV_NOT_FOUND, OK, Reply

from .door import Door
from .fleet import Instance
from .heartbeats import Beat
from .lookups import Lookups
from .operations import Register, with_origin
from .outcome import Outcome, Pending
from .recorder import NOT_STORED, Operation, Recorder
from .request import Request
from .room_recorder import RoomRecorder
from .tenancy import bare_path

MAX_PREPARED = 10_000
SAID_BY_PROXIES = (b"via", b"forwarded", b"x-forwarded-for", b"x-forwarded-proto")
"""No decode says any of these: between it and us stands something that may keep one connection for several."""

WHY_MISSED = {400: "malformed", 404: "unknown", 503: "incomplete"}

Adopt = Callable[..., Awaitable[Instance]]
Ready = Callable[[], Reply]


class KvDoor(Door):
    """Parse, call, answer."""

    about_ranks = True

    def __init__(
        self,
        *args: Any,
        recorder: Recorder,
        rooms: RoomRecorder,
        lookups: Lookups,
        policy: ProbePolicy,
        adopt: Adopt,
        ready: Ready,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.recorder = recorder
        self.rooms = rooms
        self.lookups = lookups
        self.flags = lru_cache(maxsize=65_536)(policy.flags_for)
        self.adopt = adopt
        self.ready = ready
        self.handlers: dict[str, dict[str, Callable[[Request], Awaitable[Reply]]]] = {
            "/route": {"GET": self.get_route, "PUT": self.put_route},
            "/register_dp_rank": {"POST": self.register_dp_rank},
            "/query_dp_ranks": {"POST": self.query_dp_ranks},
            "/health": {"GET": self.health, "HEAD": self.health},
            "/pd/v1/heartbeats": {"POST": self.heartbeat},
            "/pd/v1/resolve": {"POST": self.resolve},
        }

    def refusal(self, refused: Refused) -> Reply:
        return replies.refusal(refused)

    async def answer(self, request: Request) -> Reply:
        path = bare_path(request.head.path)
        methods = self.handlers.get(path)
        if methods is None:
            if path == "/livez":
                return OK
            return self.ready() if path == "/readyz" else KV_NOT_FOUND
        handler = methods.get(request.head.method)
        if handler is None:
            return replies.kv_method(methods, route=path == "/route")
        return await handler(request)

    def begin_write(self, request: Request, begin: Callable[[Instance], Outcome]) -> Outcome:
        """Begin with the instance that is meant; a first registration brings it into being before that."""
        said = self.meant(request)
        if said.instance is not None:
            return begin(said.instance)
        return self.after_adoption(self.adopt(said.name), begin)

    async def get_route(self, request: Request) -> Reply:
        self.check_reader(request)
        self.tally.lookups += 1
        said = self.meant(request)
        instance = said.instance
        if instance is None:
            if said.named:
                raise Refused(f"no instance is named {said.name}", code="not_found")
            return self._missed(request, said.name, kv.answer_route(None, request.head.query))
        if instance.retired:
            raise Refused(f"instance {instance.name} is retired", code="not_found")
        reply = instance.answers.get(request.head.query)
        if reply is None:
            reply = kv.answer_route(instance.directory, request.head.query)
            if reply.status == 200 and len(instance.answers) < MAX_PREPARED:
                instance.answers[request.head.query] = reply
        if reply.status != 200:
            return self._missed(request, instance.name, reply)
        waited_for, keeps = instance.name in self.tally.hosts, keeps_what_it_learns(request)
        if (waited_for or keeps) and kv.asks_for_topology(request.head.query):
            # Not from the raw bytes: whoever waited for it shall be seen to get it, and who keeps it is somebody whose first
            # poll is waited for.
            if waited_for:
                self.tally.topology_answered(instance.name, request.source, time.time())
            if keeps:
                instance.pollers.learned(time.monotonic())
            return reply
        entry = request.connection.remember(reply)
        if entry is not None:
            instance.unlearn.append(entry)
        return reply

    def _missed(self, request: Request, instance: str, reply: Reply) -> Reply:
        """Counts a look-up that found nothing; whoever asked for the topology is waiting from now on."""
        what = "topology" if kv.asks_for_topology(request.head.query) else "rank"
        self.tally.miss(what, WHY_MISSED[reply.status])
        if what == "topology" and reply.status == 503:
            self.tally.hosts.missed(instance, (request.source,), time.time())
        return reply

    async def put_route(self, request: Request) -> Reply:
        self.check_writer(request)
        return await self.write(request, self.begin_put)

    def begin_put(self, request: Request, body: bytes) -> Outcome:
        self.check_writer(request)
        put = kv.read_register(body, token=request.head.token)
        self.tally.registrations += 1
        put = with_origin(put, self.flags(put.ip, request.source), home=put.ip == request.source)

        def complain(refused: Refused) -> None:
            self.complain(request, refused)

        return self.begin_write(request, lambda i: self.submit(Register(i, put, request.source, complain)))

    def submit(self, operation: Operation) -> Pending:
        return Pending(self.recorder.submit(operation), lambda: operation.reply)

    async def register_dp_rank(self, request: Request) -> Reply:
        self.check_writer(request)
        return await self.write(request, self.begin_bind)

    def begin_bind(self, request: Request, body: bytes) -> Outcome:
        self.check_writer(request)
        room, dp = kv.read_bind(body)
        return self.begin_write(request, lambda i: self.bind(i, room, dp))

    def bind(self, instance: Instance, room: int, dp: int) -> Pending:
        if instance.retired:
            raise Refused(f"instance {instance.name} is retired", code="conflict")
        check_dp(instance, dp)
        future = self.rooms.bind(instance.id, room, dp)
        return Pending(future, lambda: OK if future.result() else NOT_STORED)

    async def query_dp_ranks(self, request: Request) -> Reply:
        self.check_reader(request)
        await self.rooms.loaded.wait()
        return await self.write(request, self.begin_query)

    def begin_query(self, request: Request, body: bytes) -> Outcome:
        self.check_reader(request)
        rooms = kv.read_query(body)
        self.tally.lookups += 1
        said = self.meant(request)
        if said.instance is None:
            if said.named:
                raise Refused(f"no instance is named {said.name}", code="not_found")
            self.tally.rooms_asked += len(rooms)
            return kv.found_rooms({})
        table = self.fleet.rooms.tables.get(said.instance.id)
        found = table.find_many(rooms, self.rooms.clock.ms()) if table is not None else {}
        waits = self.lookups.asked(said.instance.id, request.source, rooms, found, time.time())
        self.tally.asked_for_rooms(len(rooms), len(found), waits)
        return kv.found_rooms(found)

    async def resolve(self, request: Request) -> Reply:
        """All that a decode needs of a prefill, in one answer. What it says is prepared once, until the instance changes."""
        self.check_reader(request)
        body = await self.body(request)
        self.tally.lookups += 1
        said = self.meant(request)
        instance = said.instance
        # Intent stands in the answer, and its changes leave prepared answers alone.
        prepared = f"resolve {instance.intent if instance else ''} ".encode() + body
        if instance is not None and (reply := instance.resolved.get(prepared)) is not None:
            return resolving.unchanged(reply, request.head.headers.get(b"if-none-match"))
        asked = resolving.read(body)
        if asked.instance is not None and asked.instance != said.name:
            raise Refused(f"the body asks for {asked.instance}, the request for {said.name}", code="malformed")
        if instance is None or instance.retired:
            what = "retired" if instance is not None else "not known"
            raise Refused(f"instance {said.name} is {what}", code="not_found")
        serving = instance.directory.serving
        if serving is None:
            raise resolving.not_ready(instance.directory)
        reply = resolving.answer(instance.name, serving, instance.intent, asked)
        instance.keep_resolved(prepared, reply)
        return resolving.unchanged(reply, request.head.headers.get(b"if-none-match"))

    async def health(self, request: Request) -> Reply:
        return await self.write(request, self.begin_health)

    def begin_health(self, request: Request, _: bytes) -> Outcome:
        """Never from a memo of answers: who was told what is the evidence that ends a flush."""
        self.check_reader(request)
        said = self.meant(request)
        instance = said.instance
        if instance is None:
            return replies.text(404, f"no instance is named {said.name}") if said.named else OK
        status = health_status(instance.directory, retired=instance.retired)
        request.connection.polled.add(instance.id)
        shared = any(name in request.head.headers for name in SAID_BY_PROXIES)
        instance.pollers.polled(request.connection.number, status, time.monotonic(), shared=shared)
        self.tally.polls[status] = self.tally.polls.get(status, 0) + 1
        if status == 200:
            return OK
        if status == 404:
            return replies.text(404, f"instance {instance.name} is retired")
        return replies.text(503, f"instance {instance.name} changed or lost a rank: drop what is cached of it")

    async def heartbeat(self, request: Request) -> Reply:
        self.check_writer(request)
        return await self.write(request, self.begin_beat)

    def begin_beat(self, request: Request, body: bytes) -> Outcome:
        self.check_writer(request)
        beat = heartbeat.read(body)
        self.tally.beats += 1
        return self.begin_write(request, lambda i: self.submit(Beat(i, beat, self.fleet)))


def check_dp(instance: Instance, dp: int) -> None:
    """A DP rank that no launch of the instance has is a mistake of the sender."""
    sizes = [launch.topology.dp for launch in instance.directory.launches()]
    if sizes and dp >= max(sizes):
        raise Refused(f"dp_rank {dp} does not exist in {instance.name}, which has {max(sizes)}", code="malformed")


def keeps_what_it_learns(request: Request) -> bool:
    """SGLang's decodes ask with `requests`, and keep the topology until `/health` tells them not to."""
    return request.head.headers.get(b"user-agent", b"").startswith(b"python-requests/")
