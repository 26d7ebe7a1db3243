"""An engine as SGLang 0.5.23 shows itself over HTTP, without a model: it counts what it is asked and holds what it is told.

What it says of its load is true: requests that it holds are running, and what a test sets comes on top.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import Any

from aiohttp import web

from tests.doubles.serving import Server

VERSION = "0.5.23"
SECTIONS = {"core", "memory", "spec", "lora", "disagg", "queues", "all"}
# Open to everybody in SGLang too, whatever key it wants.
PUBLIC = {"/health", "/health_generate"}


@dataclass
class Counts:
    """What one DP rank holds besides real requests. `waiting` is the scheduler's own queue only."""

    running: int = 0
    waiting: int = 0
    bootstrap: int = 0
    inflight: int = 0
    prealloc: int = 0
    transfer: int = 0
    retracted: int = 0
    grammar: int = 0
    paused: int = 0

    @property
    def total(self) -> int:
        return sum(asdict(self).values())


@dataclass
class Asked:
    """One request that arrived, as the engine saw it."""

    method: str
    path: str
    key: str
    body: dict[str, Any] = field(default_factory=dict)


ASKED = web.RequestKey("asked", Asked)


class Engine(Server):
    """`role` is prefill, decode or null (not disaggregated).

    Knobs, to be set at any time: `counts[dp]`; `hold` (requests stay until `release()`); `health` (status) and
    `health_seconds`; `script` (statuses of /health to come, one after another; 0 hangs up); `loads` (status of its loads);
    `started_at` (which start it says that it is); `frozen` (snapshots keep the age they have: a scheduler that hangs);
    `still` (age of the snapshot of single DP ranks, seconds); `clock` (its clock minus ours, seconds); `sections` (what it
    knows of itself); `key`; `answers` (status of generate, 200 by default).
    """

    def __init__(
        self,
        role: str = "prefill",
        *,
        dp: int = 1,
        key: str = "",
        bootstrap_port: int = 8998,
        model: str = "double",
        port: int | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(port=port, host=host)
        self.role, self.dp, self.key, self.bootstrap_port, self.model = role, dp, key, bootstrap_port, model
        self.counts = [Counts() for _ in range(dp)]
        self.sections = {"disagg", "queues"}
        self.health, self.health_seconds = 200, 0.0
        self.script: deque[int] = deque()
        self.loads = 200
        self.answers = 200
        self.clock = 0.0
        self.frozen: float | None = None
        self.still: dict[int, float] = {}
        self.asked: list[Asked] = []
        self.served: Counter[str] = Counter()
        self.hold = False
        self.started_at = time.time()
        self._held = [0] * dp

    async def begun(self) -> None:
        self._release = asyncio.Event()

    # What tests do to it.

    def freeze(self) -> None:
        """From now on every snapshot is from this moment: its age grows, its numbers stay."""
        self._frozen_counts = self._loads_now()
        self.frozen = self.now()

    def thaw(self) -> None:
        self.frozen = None

    def release(self) -> None:
        """Let every held request end."""
        self.hold = False
        self.run(self._let_go())

    def held(self, dp: int | None = None) -> int:
        return sum(self._held) if dp is None else self._held[dp]

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(asked.path == path for asked in list(self.asked))

    @property
    def rooms(self) -> list[int]:
        """The bootstrap rooms of the requests that arrived, in order."""
        return [asked.body["bootstrap_room"] for asked in list(self.asked) if "bootstrap_room" in asked.body]

    def now(self) -> float:
        return time.time() + self.clock

    # What it serves.

    def routes(self, app: web.Application) -> None:
        app.middlewares.append(self._door)
        app.router.add_get("/health", self._health)
        app.router.add_get("/health_generate", self._health)
        app.router.add_get("/v1/loads", self._loads)
        for path in ("/server_info", "/get_server_info"):
            app.router.add_get(path, self._server_info)
        for path in ("/model_info", "/get_model_info"):
            app.router.add_get(path, self._model_info)
        app.router.add_get("/v1/models", self._models)
        for path in ("/generate", "/v1/completions", "/v1/chat/completions"):
            app.router.add_post(path, self._generate)
        app.router.add_post("/abort_request", self._abort)

    @web.middleware
    async def _door(self, request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        asked = Asked(request.method, request.path, given)
        self.asked.append(asked)
        if self.key and request.path not in PUBLIC and given != self.key:
            return web.json_response({"error": "Unauthorized"}, status=401)
        if request.method == "POST" and request.can_read_body:
            asked.body = await request.json()
        request[ASKED] = asked
        return await handler(request)

    async def _health(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self.health_seconds)
        status = self.script.popleft() if self.script else self.health
        if status == 0 and request.transport is not None:
            request.transport.abort()
        return web.Response(status=status or 200)

    async def _loads(self, request: web.Request) -> web.StreamResponse:
        if self.loads != 200:
            return web.Response(status=self.loads)
        wanted = {part.strip() for part in request.query.get("include", "all").split(",")}
        if not wanted <= SECTIONS:
            return web.json_response({"detail": f"Invalid include sections: {wanted - SECTIONS}"}, status=400)
        loads = self._loads_now() if self.frozen is None else self._frozen_counts
        only = request.query.get("dp_rank")
        shown = [self._shown(load, wanted) for load in loads if only is None or load["dp_rank"] == int(only)]
        moment = datetime.datetime.fromtimestamp(self.now(), datetime.UTC).isoformat()
        return web.json_response(
            {"timestamp": moment, "version": VERSION, "accelerator": None, "num_accelerators": 1, "loads": shown}
        )

    def _loads_now(self) -> list[dict[str, Any]]:
        return [self._load(dp) for dp in range(self.dp)]

    def _load(self, dp: int) -> dict[str, Any]:
        counts, prefill, decode = self.counts[dp], self.role == "prefill", self.role == "decode"
        # As SGLang adds them up: of a prefill the bootstrap queue waits too, of a decode its three.
        waiting = counts.waiting + counts.bootstrap * prefill
        waiting += (counts.prealloc + counts.transfer + counts.retracted) * decode
        return {
            "timestamp": self.now() - self.still.get(dp, 0.0),
            "dp_rank": dp,
            "num_running_reqs": counts.running + self._held[dp],
            "num_waiting_reqs": waiting,
            "num_waiting_uncached_tokens": 0,
            "num_used_tokens": 0,
            "num_total_tokens": 0,
            "max_total_num_tokens": 100_000,
            "max_running_requests": 256,
            "token_usage": 0.0,
            "gen_throughput": 0.0,
            "cache_hit_rate": 0.0,
            "disaggregation": {
                "mode": self.role,
                "prefill_bootstrap_queue_reqs": counts.bootstrap if prefill else 0,
                "prefill_inflight_queue_reqs": counts.inflight if prefill else 0,
                "decode_prealloc_queue_reqs": counts.prealloc if decode else 0,
                "decode_transfer_queue_reqs": counts.transfer if decode else 0,
                "decode_retracted_queue_reqs": counts.retracted if decode else 0,
                "kv_transfer_speed_gb_s": 0.0,
                "kv_transfer_latency_ms": 0.0,
            },
            "queues": {
                "waiting": counts.waiting,
                "grammar": counts.grammar,
                "paused": counts.paused,
                "retracted": 0,
                "prealloc_ready": 0,
            },
        }

    def _shown(self, load: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
        """Sections that were not asked for, or that it does not know, are absent and not zero."""
        named = {"disaggregation": "disagg", "queues": "queues"}
        absent = {
            section for section, name in named.items() if name not in self.sections or not ({"all", name} & wanted)
        }
        return {name: value for name, value in load.items() if name not in absent}

    async def _server_info(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {
                "model_path": self.model,
                "served_model_name": self.model,
                "tokenizer_path": self.model,
                "disaggregation_mode": self.role,
                "disaggregation_bootstrap_port": self.bootstrap_port,
                "disaggregation_transfer_backend": "mooncake",
                "load_balance_method": "follow_bootstrap_room",
                "tp_size": 1,
                "dp_size": self.dp,
                "pp_size": 1,
                "attn_cp_size": 1,
                "enable_dp_attention": self.dp > 1,
                "host": self.host,
                "port": self.port,
                "page_size": 64,
                "kv_cache_dtype": "auto",
                "startup_time": self.started_at,
                "version": VERSION,
                "internal_states": [{} for _ in range(self.dp)],
            }
        )

    async def _model_info(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"model_path": self.model, "served_model_name": self.model, "is_generation": True, "weight_version": "1"}
        )

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"id": self.model, "object": "model"}]})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = request[ASKED].body
        room = body.get("bootstrap_room") or 0
        dp = (room if isinstance(room, int) else 0) % self.dp
        self._held[dp] += 1
        try:
            if self.hold:
                await self._release.wait()
        finally:
            self._held[dp] -= 1
        if self.answers != 200:
            return web.json_response({"error": {"message": "as told"}}, status=self.answers)
        self.served[request.path] += 1
        return web.json_response(self._answer(request.path))

    def _answer(self, path: str) -> dict[str, Any]:
        if path == "/generate":
            return {"text": "ok", "meta_info": {"id": "1", "prompt_tokens": 1, "completion_tokens": 1}}
        if path == "/v1/completions":
            return {"id": "1", "object": "text_completion", "choices": [{"index": 0, "text": "ok"}]}
        message = {"role": "assistant", "content": "ok"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "1", "object": "chat.completion", "model": self.model, "choices": [choice]}

    async def _abort(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=200)

    async def _let_go(self) -> None:
        self._release.set()
        self._release = asyncio.Event()
