"""A router with the REST API of sglang-router 0.3 and the faults that the real one shows only when it is unlucky."""

from __future__ import annotations

import itertools
from typing import Any

from aiohttp import web

from tests.doubles.serving import Server


class StubbornRouter(Server):
    """Knobs, to be set at any time: `refuses` (answers 400 to whom it is told of), `swallows` (says yes and forgets),
    `keeps` (says yes and keeps whom it shall let go), `metrics` (what is served as such; None: there are none)."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        self.swallows = self.keeps = False
        self.metrics: str | None = None
        self.held: dict[str, dict[str, Any]] = {}
        self.told: list[str] = []
        self._ids = itertools.count(1)

    @property
    def metrics_url(self) -> str:
        return "" if self.metrics is None else self.url

    def urls(self) -> list[str]:
        return sorted(worker["url"] for worker in self.held.values())

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/workers", self._list)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/workers", self._add)
        app.router.add_delete("/workers/{id}", self._remove)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"workers": [{"id": id_, **worker} for id_, worker in self.held.items()]})

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=self.metrics or "")

    async def _add(self, request: web.Request) -> web.StreamResponse:
        worker = await request.json()
        self.told.append(worker["url"])
        if worker["url"] in self.refuses:
            return web.json_response({"error": "SECRET reason"}, status=400)
        id_ = str(next(self._ids))
        if not self.swallows:
            self.held[id_] = worker
        return web.json_response({"status": "accepted", "worker_id": id_}, status=202)

    async def _remove(self, request: web.Request) -> web.StreamResponse:
        if not self.keeps and self.held.pop(request.match_info["id"], None) is None:
            return web.json_response({"code": "WORKER_NOT_FOUND"}, status=404)
        return web.json_response({"status": "accepted"}, status=202)
