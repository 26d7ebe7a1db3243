"""What probes and observation cost: a round of 10,000 ranks, and what look-ups feel of it and of 50 observed engines.

`python -m tests.bench.probing COUNT` is so many engines' own bootstrap servers, in one process: it says `urls …`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from aiohttp import web

from tests.bench import traffic
from tests.bench.cases import Case, Plan
from tests.bench.compare import fill, measure
from tests.bench.load import Request, Run
from tests.bench.report import Bar, Row, compared, plain
from tests.bench.servers import SQLITE, THEIRS, Ours, Server, Stable, answer, wait_for
from tests.detection.crowd import Crowd
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.wire.operators import Operator

RANKS, ENGINES = 10_000, 50
SWEEP_SECONDS, SWEEP_CORES = 8.0, 0.5
QUIET = "/i/quiet"


def probing(stable: Stable, plan: Plan) -> Iterator[Row]:
    ours = _ours(stable)
    with _crowd(ours):
        seconds, cores, cost = _rounds(ours, 2 if plan.quick else 4)
        note = f"{cost:.0f} µs of CPU a probe; without requests"
        yield plain(f"round of probes, {RANKS:,} ranks", SQLITE, "s", seconds, bar=Bar(at_most=SWEEP_SECONDS))
        bar = Bar(at_most=SWEEP_CORES)
        yield plain(f"the process that probes {RANKS:,} ranks", SQLITE, "cores", cores, bar=bar, note=note)
        yield from _look_ups(stable, plan, ours, f"slot look-up while {RANKS:,} ranks are probed")
    stable.stop(ours)
    ours = _ours(stable)
    with _engines(ours):
        yield from _look_ups(stable, plan, ours, f"slot look-up while {ENGINES} engines are observed")
    stable.stop(ours)


def _ours(stable: Stable) -> Ours:
    """A directory of 1,024 ranks that are not probed: the same for both sides."""
    ours = stable.start(SQLITE)
    assert isinstance(ours, Ours)
    fill(ours, list(traffic.repeated_registrations(QUIET)))
    wait_for(f"{ours.url('kv')}{QUIET}/route?{traffic.TOPOLOGY_QUERY}", within=10)
    return ours


def _look_ups(stable: Stable, plan: Plan, ours: Ours, name: str) -> Iterator[Row]:
    """Against SGLang's server, which has nothing to do beside; and in the note ours when it has nothing either."""
    theirs = stable.start(THEIRS)
    fill(theirs, list(traffic.repeated_registrations("")))
    idle = _ours(stable)
    runs: dict[str, list[Run]] = {"idle": [], SQLITE: [], THEIRS: []}
    case = Case("slot look-up", _requests, Bar(), order="random")
    for _ in range(plan.alternations):
        for which, server in (("idle", idle), (SQLITE, ours), (THEIRS, theirs)):
            runs[which].append(measure(server, case, 64, max(2, plan.seconds), again=not plan.quick))
    for server in (theirs, idle):
        stable.stop(server)
    rate, p99 = median(run.per_second for run in runs["idle"]), min(run.p99 for run in runs["idle"])
    note = f"ours with nothing beside: {rate:,.0f} req/s, p99 {p99:.2f} ms"
    yield compared(name, SQLITE, 64, runs[SQLITE], runs[THEIRS], Bar(p99_at_most=1.0), note)


def _requests(server: Server, _seconds: int) -> Iterator[Request]:
    return traffic.slot_look_ups(QUIET if server.tenants else "")


@contextmanager
def _crowd(ours: Ours) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        crowd = Crowd(RANKS, Path(directory) / "crowd.log")
        stack.callback(crowd.close)
        asyncio.run(crowd.register(ours.bootstrap.kv_port))
        for name in sorted({instance for instance, _ in crowd.bodies()}):
            wait_for(f"{ours.url('kv')}/i/{name}/route?{traffic.TOPOLOGY_QUERY}")
        yield


def _rounds(ours: Ours, count: int) -> tuple[float, float, float]:
    """Of a few times that everybody is asked: seconds each, cores used meanwhile, microseconds of CPU a probe."""
    process = psutil.Process(ours.bootstrap.pid)
    while _pace(ours)["ranks"] < RANKS:
        time.sleep(0.1)

    def used() -> float:
        times = process.cpu_times()
        return times.user + times.system

    took = []
    start, cpu, first = time.monotonic(), used(), _pace(ours)["asked"]
    for at in range(1, count + 1):
        # Whoever was not asked for longest is next: so many probes are everybody.
        while (asked := _pace(ours)["asked"] - first) < at * RANKS:
            time.sleep(0.02)
        took.append(time.monotonic() - start - sum(took))
    cost = used() - cpu
    return median(took), cost / (time.monotonic() - start), 1e6 * cost / asked


def _pace(ours: Ours) -> dict[str, Any]:
    return json.loads(answer(f"{ours.url('kv')}/readyz")[1])["probes"]


@contextmanager
def _engines(ours: Ours) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.bench.probing", str(ENGINES)]
        engines = Child(command, env=clean_env(), log=Path(directory) / "engines.log")
        urls = engines.wait_for_line("^urls (.*)$", timeout=60)[1].split()
        operator = Operator(ours.backend, log=Path(directory) / "operator.log")
        for number, url in enumerate(urls):
            operator.add(f"seen-{number}", observed_url=url)
        operator.close()
        for number in range(len(urls)):
            wait_for(f"{ours.url('kv')}/i/seen-{number}/route?{traffic.TOPOLOGY_QUERY}")
        yield
        engines.kill9()


def serve(count: int) -> None:
    """Bootstrap servers of engines of one rank, whose rank listens nowhere: they are asked, again and again."""

    async def route(request: web.Request) -> web.Response:
        if request.query["prefill_dp_rank"] == "-1":
            sizes = {"attn_tp_size": 1, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1}
            return web.json_response({**sizes, "page_size": 64, "kv_cache_dtype": "auto"})
        return web.json_response({"rank_ip": "203.0.113.9", "rank_port": request.url.port})

    async def run() -> None:
        urls = []
        for _ in range(count):
            app = web.Application()
            app.router.add_get("/route", route)
            runner = web.AppRunner(app, access_log=None)
            await runner.setup()
            port = free_port()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            urls.append(f"http://127.0.0.1:{port}")
        print("urls", *urls, flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


if __name__ == "__main__":
    serve(int(sys.argv[1]))
