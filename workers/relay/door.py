"""What the relay answers, path by path: parse, ask the control plane or what is held here, answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from controlplane.domain.errors import Refused
from controlplane.protocol import heartbeat, kv, replies, resolving
from controlplane.protocol.reading import short_text
from controlplane.protocol.replies import KV_NOT_FOUND, OK, PLAIN_JSON, TEXT, Reply
from workers.sdk.exchange import Answer
from workers.sdk.keeping import BEAT

from . import processes
from .http import Request
from .journal import JournalFailed
from .keeping import Keeping
from .link import State, generation
from .networks import Admission
from .processes import Process
from .records import Record
from .status import exposition, status
from .upkeep import Upkeep

log = logging.getLogger(__name__)

TOKEN_HEADERS = (b"x-pd-generation", b"x-sglang-disaggregation-instance-id")
MOST_PUT = 64 * 1024
CLIENT = b"python-requests/"
METRICS = b"text/plain; version=0.0.4; charset=utf-8"
COMPLAINT_SECONDS, MOST_COMPLAINTS = 60.0, 100
MOST_DRAINING = 8192

Handler = Callable[[Request], Awaitable[Reply]]


class Door:
    def __init__(self, keeping: Keeping, upkeep: Upkeep, admission: Admission, *, worker: str) -> None:
        self._keeping, self._upkeep, self._admission, self._worker = keeping, upkeep, admission, worker
        self._link = keeping.link
        self._unseen = False
        self._complained: dict[str, float] = {}
        # Workers that were told so with their last heartbeat, by name.
        self._draining: set[str] = set()
        self.answered: dict[str, int] = {"control plane": 0, "relay": 0}
        self._handlers: dict[str, dict[str, Handler]] = {
            "/route": {"GET": self.get_route, "PUT": self.put_route},
            "/register_dp_rank": {"POST": self.bind},
            "/query_dp_ranks": {"POST": self.find},
            "/health": {"GET": self.health, "HEAD": self.health},
            "/pd/v1/heartbeats": {"POST": self.beat},
            "/pd/v1/resolve": {"POST": self.resolve},
            "/pd/v1/relay": {"GET": self.status},
            "/metrics": {"GET": self.metrics},
            "/livez": {"GET": self.livez},
            "/readyz": {"GET": self.livez},
        }

    async def __call__(self, request: Request) -> Reply:
        methods = self._handlers.get(_bare(request.path))
        if methods is None:
            return KV_NOT_FOUND
        handler = methods.get(request.method)
        if handler is None:
            return replies.kv_method(methods, route=_bare(request.path) == "/route")
        try:
            return await handler(request)
        except Refused as refused:
            self._complain(request, refused)
            return replies.refusal(refused)
        except JournalFailed as problem:
            return replies.refusal(Refused(f"nothing was acknowledged: {problem}", code="unavailable"))
        except Exception:
            log.exception("%s %s failed", request.method, request.path[:60])
            return replies.refusal(Refused("the relay failed on this request; see its log", code="internal"))

    def _complain(self, request: Request, refused: Refused) -> None:
        """Of writes, and not the same again within a minute, nor very many."""
        now = time.monotonic()
        if request.method == "GET" or now - self._complained.get(refused.sentence, -1e9) < COMPLAINT_SECONDS:
            return
        if len(self._complained) >= MOST_COMPLAINTS:
            self._complained = {said: at for said, at in self._complained.items() if now - at < COMPLAINT_SECONDS}
        if len(self._complained) < MOST_COMPLAINTS:
            self._complained[refused.sentence] = now
            what = f"{request.method} {request.path[:60]} of {request.peer[0]}"
            log.warning("%s was refused: %s", what, refused.sentence)

    # Look-ups.
    async def get_route(self, request: Request) -> Reply:
        topology = kv.asks_for_topology(request.query)
        if self._link.together and not self._keeping.health.owes:
            query = request.query.decode("latin-1")
            answer = await self._link.ask("GET", f"/route?{query}" if query else "/route")
            if answer is not None:
                self._upkeep.heard(request.query, answer)
                return self._passed(request, answer, topology=topology)
        self.answered["relay"] += 1
        self._keeping.refresh()
        reply = kv.answer_route(self._keeping.directory(), request.query)
        if topology and reply.status == 200:
            self._learned(request)
        return reply

    async def resolve(self, request: Request) -> Reply:
        if self._link.together and not self._keeping.health.owes:
            tag = request.headers.get(b"if-none-match")
            more = {"if-none-match": tag.decode("latin-1")} if tag else {}
            answer = await self._link.ask("POST", "/pd/v1/resolve", request.body, more)
            if answer is not None:
                return self._passed(request, answer)
        self.answered["relay"] += 1
        asked = resolving.read(request.body)
        if asked.instance is not None and asked.instance != self._keeping.name:
            raise Refused(f"the body asks for {asked.instance}, this relay is {self._keeping.name}'s", code="malformed")
        self._keeping.refresh()
        directory = self._keeping.directory()
        if directory.serving is None:
            raise resolving.not_ready(directory)
        telling = self._upkeep.telling
        reply = resolving.answer(
            self._keeping.name,
            directory.serving,
            telling.intent,
            asked,
            old=True,
            heard_seconds_ago=telling.heard_seconds_ago,
        )
        return resolving.unchanged(reply, request.headers.get(b"if-none-match"))

    async def find(self, request: Request) -> Reply:
        """From what was bound here; what was not is asked for, while there is somebody to ask."""
        rooms = kv.read_query(request.body)
        found = self._keeping.rooms.find(rooms, self._keeping.clock())
        missing = [room for room in rooms if room not in found]
        if found:
            self._upkeep.asked(found)
        if missing and self._link.together:
            found |= await self._upkeep.look_up(missing)
        return kv.found_rooms({room: found[room] for room in dict.fromkeys(rooms) if room in found})

    # What is told.
    async def put_route(self, request: Request) -> Reply:
        self._admission.check(request.peer[0])
        if len(request.body) > MOST_PUT:
            raise Refused(f"the body is larger than the limit of {MOST_PUT} bytes", code="too_large")
        told = _token_of(request)
        said = kv.read_register(request.body, token=told)
        process, token, records = await self._who(request, told)
        said = kv.read_register(request.body, token=token) if token is not None else said
        keeping = self._keeping
        if records:
            # Never another token for the same launch, whenever we are killed.
            await keeping.journal.append(records)
        forwarded = None
        if self._link.together:
            forwarded = await self._link.ask("PUT", "/route", request.body, generation(token), within=3.0)
            if forwarded is not None and forwarded.status != 200:
                return self._passed(request, forwarded)
        if forwarded is None:
            keeping.check(said)
        elif keeping.holding.is_full(said):
            # It is durable there, and more than is kept a copy of.
            return OK
        put = keeping.put(request.body.decode(), token, process, request.peer[0], pending=forwarded is None)
        again = keeping.untoken() if keeping.holding.spread() else []
        keeping.refresh()
        try:
            await keeping.journal.append([put, *again])
        except JournalFailed:
            if forwarded is None:
                raise
            # It is durable there.
        self._upkeep.registered()
        return OK

    async def _who(self, request: Request, told: str | None) -> tuple[str, str | None, list[Record]]:
        """The sender's process, and the token of its launch: its own word counts, else what can be seen of it."""
        seen = await asyncio.to_thread(_seen, request)
        if told is not None:
            return str(seen[0]) if seen else "", told, []
        if seen is None:
            if not self._unseen:
                self._unseen = True
                log.warning(
                    "the process of a rank at %s cannot be seen from here (another host, another PID namespace or user), so"
                    " its launch gets no token",
                    request.peer[0],
                )
            return "", None, []
        token, records = self._keeping.token_of(seen[1])
        return str(seen[0]), token, records

    async def bind(self, request: Request) -> Reply:
        self._admission.check(request.peer[0])
        room, dp = kv.read_bind(request.body)
        self._keeping.check_dp(dp)
        record = self._keeping.room(room, dp)
        try:
            await self._keeping.journal.append([record])
        except JournalFailed:
            answer = await self._link.ask("POST", "/register_dp_rank", request.body) if self._link.together else None
            if answer is None:
                raise
            return self._passed(request, answer)
        self._upkeep.bound()
        return OK

    async def beat(self, request: Request) -> Reply:
        """Of a worker that beats by itself. Nobody counts its lease while the control plane is away, and whoever was told to
        drain drains on."""
        self._admission.check(request.peer[0])
        beat = heartbeat.read(request.body)
        if self._link.state is not State.AWAY:
            answer = await self._link.ask("POST", "/pd/v1/heartbeats", request.body)
            if answer is not None:
                self._note_drain(beat.worker, answer)
                return self._passed(request, answer)
        self.answered["relay"] += 1
        drains: list[dict[str, object]] = [{"do": "drain"}] if beat.worker in self._draining else []
        return heartbeat.answer(drains, None, self._upkeep.telling.intent)

    def _note_drain(self, worker: str, answer: Answer) -> None:
        try:
            drains = answer.status == 200 and BEAT.decode(answer.body).drains
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if not drains:
            self._draining.discard(worker)
        elif len(self._draining) < MOST_DRAINING:
            self._draining.add(worker)

    # How it is.
    async def health(self, request: Request) -> Reply:
        self._keeping.refresh()
        said = 404 if self._upkeep.retired else self._keeping.health.status
        self._keeping.health.pollers.polled(request.connection, said, self._keeping.clock())
        if said == 200:
            return OK
        if said == 404:
            return replies.text(404, f"instance {self._keeping.name} is retired")
        return replies.text(503, f"instance {self._keeping.name} changed or lost a rank: drop what is cached of it")

    async def livez(self, request: Request) -> Reply:
        return OK

    async def status(self, request: Request) -> Reply:
        return Reply(200, status(self._keeping, self._upkeep, self._worker, self.answered), PLAIN_JSON)

    async def metrics(self, request: Request) -> Reply:
        return Reply(200, exposition(self._keeping, self._upkeep, self.answered), METRICS)

    def closed(self, connection: int) -> None:
        self._keeping.health.pollers.closed(connection, self._keeping.clock())

    def _passed(self, request: Request, answer: Answer, *, topology: bool = False) -> Reply:
        """The control plane's answer, as it said it."""
        self.answered["control plane"] += 1
        if topology and answer.status == 200:
            self._learned(request)
        etag = answer.headers.get("etag")
        more = f"etag: {etag}\r\n".encode("latin-1") if etag else b""
        kind = answer.headers.get("content-type", "").encode("latin-1") or TEXT
        return Reply(answer.status, answer.body, kind, headers=more)

    def _learned(self, request: Request) -> None:
        if request.headers.get(b"user-agent", b"").startswith(CLIENT):
            self._keeping.health.pollers.learned(self._keeping.clock())


def _seen(request: Request) -> tuple[Process, processes.LaunchIdentity] | None:
    process = processes.find_peer(request.own, request.peer)
    return (process, processes.launch_of(process)) if process is not None else None


def _token_of(request: Request) -> str | None:
    for name in TOKEN_HEADERS:
        if value := request.headers.get(name):
            return short_text(value.decode("latin-1"), name.decode(), 128)
    return None


def _bare(path: str) -> str:
    """`/i/NAME/route` is `/route`: whoever asks here means this relay's instance."""
    return "/" + path[3:].partition("/")[2] if path.startswith("/i/") else path
