"""A small directory to simulate against: counts slots as ours does, and writes down all that it hears."""

from __future__ import annotations

from aiohttp import web

from controlplane.domain.topology import Slot


class Directory:
    """Serves both wires on one port of 127.0.0.1, at the root and under /i/NAME."""

    def __init__(self, *, refuse_first: int = 0) -> None:
        self.refuse_first = refuse_first
        self.rows: dict[Slot, dict] = {}
        self.puts: list[tuple[str, dict, bytes]] = []
        self.weights: list[dict] = []
        self.rooms: dict[int, int] = {}

    async def __aenter__(self) -> Directory:
        app = web.Application()
        for prefix in ("", "/i/{name}"):
            app.router.add_put(f"{prefix}/route", self._put)
            app.router.add_get(f"{prefix}/route", self._get)
            app.router.add_post(f"{prefix}/register_dp_rank", self._room)
            app.router.add_put(f"{prefix}/register_transfer_engine_info", self._weights)
        self._runner = web.AppRunner(app, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._runner.cleanup()

    async def _put(self, request: web.Request) -> web.Response:
        self.puts.append((request.path, dict(request.headers), await request.read()))
        if len(self.puts) <= self.refuse_first:
            return web.Response(status=503, text="not now")
        row = await request.json()
        dp = row["attn_dp_rank"] if row["system_dp_size"] == 1 else row["system_dp_rank"]
        self.rows[Slot(dp, row["attn_cp_rank"], row["attn_tp_rank"], row["pp_rank"])] = row
        return web.Response(text="OK")

    async def _get(self, request: web.Request) -> web.Response:
        assert set(request.query.values()) == {"-1"} and len(request.query) == 4
        sizes = next(iter(self.rows.values()), None)
        expected = sizes and (
            (sizes["attn_dp_size"] if sizes["system_dp_size"] == 1 else sizes["system_dp_size"])
            * sizes["attn_cp_size"]
            * sizes["attn_tp_size"]
            * sizes["pp_size"]
        )
        if len(self.rows) == expected:
            return web.json_response({})
        text = f"Prefill server not fully registered yet ({len(self.rows)} workers registered)."
        return web.Response(status=503, text=text)

    async def _room(self, request: web.Request) -> web.Response:
        row = await request.json()
        self.rooms[row["bootstrap_room"]] = row["dp_rank"]
        return web.Response(text="OK")

    async def _weights(self, request: web.Request) -> web.Response:
        self.weights.append(await request.json())
        return web.Response(text="OK")
