"""The HTTP server of an agent: SGLang's paths, as far as routers, probes and people use them."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from workers.sdk import Overloaded, Place, WorkerError

from . import asking
from .asking import Request
from .groups import config_of
from .settings import Settings
from .work import Desk

MAX_BODY = 1 << 20
AT_ONCE = 64
MOST_OF_ONE = 32
"""Requests under way for one prefill: one that is silent keeps its own waiting, and no other's."""
MOST_WAITING = 1000


class Agent(Protocol):
    settings: Settings
    desk: Desk

    @property
    def ready(self) -> bool: ...

    @property
    def trouble(self) -> str: ...

    def serve(self, request: Request, on: Callable[[int], None]) -> dict[str, Any]: ...


@dataclass(slots=True)
class _Line:
    gate: asyncio.Semaphore
    users: int = field(default=0)


class Door:
    """One agent's paths. Requests wait for one another's computing on threads, `AT_ONCE` of them."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.started = time.time()
        self.vocabulary = config_of(agent.settings).vocabulary
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="request")
        self._lines: dict[Place | None, _Line] = {}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/generate", self.generate)
        app.router.add_post("/abort_request", self.abort)
        for path in ("/health", "/health_generate"):
            app.router.add_get(path, self.health)
        for path in ("/server_info", "/get_server_info"):
            app.router.add_get(path, self.server_info)
        app.router.add_get("/v1/loads", self.loads)
        return app

    async def generate(self, http: web.Request) -> web.StreamResponse:
        try:
            needs_place = self.agent.settings.mode == "decode"
            request = asking.read(await http.read(), vocabulary=self.vocabulary, needs_place=needs_place)
            if request.stream:
                return await self._stream(http, request)
            return web.json_response(await self._serve(request, lambda _: None))
        except WorkerError as problem:
            return _problem(problem)

    async def _serve(self, request: Request, on: Callable[[int], None]) -> dict[str, Any]:
        async with self._turn(request.place):
            serving = asyncio.get_running_loop().run_in_executor(self._threads, self.agent.serve, request, on)
            try:
                return await asyncio.shield(serving)
            except asyncio.CancelledError:
                # The client is gone; what was opened for it is closed by the thread that opened it.
                await asyncio.to_thread(self._gone, request)
                raise

    @asynccontextmanager
    async def _turn(self, place: Place | None) -> AsyncIterator[None]:
        """Of the requests that name this prefill; a prefill's own name none. Raises Overloaded."""
        line = self._lines.setdefault(place, _Line(asyncio.Semaphore(MOST_OF_ONE if place is not None else AT_ONCE)))
        if line.users >= MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} requests wait for {place or 'this prefill'} already; try again")
        line.users += 1
        try:
            async with line.gate:
                yield
        finally:
            line.users -= 1
            if not line.users:
                del self._lines[place]

    def _gone(self, request: Request) -> None:
        work = self.agent.desk.at(request.room)
        if work is not None and work.request is request:
            work.abort("the client is gone")

    async def _stream(self, http: web.Request, request: Request) -> web.StreamResponse:
        """Server-sent events, one a token; an error after the first is an event too."""
        loop = asyncio.get_running_loop()
        came: asyncio.Queue[int | None] = asyncio.Queue()

        def on(token: int) -> None:
            loop.call_soon_threadsafe(came.put_nowait, token)

        serving = asyncio.create_task(self._serve(request, on))
        serving.add_done_callback(lambda _: loop.call_soon(came.put_nowait, None))
        try:
            first = await came.get()
            if first is None:
                return web.json_response(await serving)
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(http)
            tokens: list[int] = []
            token: int | None = first
            while token is not None:
                tokens.append(token)
                await response.write(_event(asking.answer(request, tokens)))
                token = await came.get()
            try:
                await serving
            except WorkerError as problem:
                await response.write(_event({"error": {"message": problem.sentence, "code": problem.status}}))
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
            return response
        finally:
            serving.cancel()

    async def abort(self, http: web.Request) -> web.Response:
        try:
            body = json.loads(await http.read() or b"{}")
            rid, everything = str(body.get("rid") or ""), bool(body.get("abort_all"))
        except (ValueError, AttributeError):
            return _problem(asking.BadRequest("the body must be an object with rid"))
        if not rid and not everything:
            return _problem(asking.BadRequest("rid is missing; abort_all ends every request"))
        await asyncio.to_thread(self.agent.desk.abort, "" if everything else rid, "the request was aborted")
        return web.Response()

    async def health(self, http: web.Request) -> web.Response:
        if self.agent.ready:
            return web.Response()
        return web.Response(status=503, text=f"not registered: {self.agent.trouble}")

    async def server_info(self, http: web.Request) -> web.Response:
        settings = self.agent.settings
        info = {
            "startup_time": self.started,
            "version": "pd-agent",
            "model_path": "reference",
            "served_model_name": "reference",
            "disaggregation_mode": settings.mode,
            "disaggregation_transfer_backend": settings.backend,
            "tp_size": settings.tp * settings.dp,
            "dp_size": settings.dp,
            "pp_size": settings.pp,
            "enable_dp_attention": settings.dp > 1,
            "page_size": settings.page_size,
            "kv_cache_dtype": settings.told_dtype,
            "load_balance_method": settings.load_balance_method,
            "internal_states": [{} for _ in range(settings.dp)],
        }
        return web.json_response(info)

    async def loads(self, http: web.Request) -> web.Response:
        """What is open, by DP rank; an aborted room that waits for its end counts until it has ended."""
        queue = "prefill_inflight_queue_reqs" if self.agent.settings.mode == "prefill" else "decode_transfer_queue_reqs"
        now = datetime.datetime.now(datetime.UTC).isoformat()
        loads = [
            {
                "timestamp": now,
                "dp_rank": dp,
                "num_running_reqs": open_rooms,
                "num_waiting_reqs": 0,
                "disaggregation": {
                    "mode": self.agent.settings.mode,
                    "prefill_bootstrap_queue_reqs": 0,
                    "prefill_inflight_queue_reqs": 0,
                    "decode_prealloc_queue_reqs": 0,
                    "decode_transfer_queue_reqs": 0,
                    "decode_retracted_queue_reqs": 0,
                    queue: open_rooms,
                },
                "queues": {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0},
            }
            for dp, open_rooms in self.agent.desk.open_rooms().items()
        ]
        return web.json_response({"timestamp": now, "version": "pd-agent", "loads": loads})

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _problem(problem: WorkerError) -> web.Response:
    return web.json_response(
        {"error": {"message": problem.sentence, "type": type(problem).__name__, "code": problem.status}},
        status=problem.status,
    )


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
