"""How long pages of a large fleet take, with their bytes and queries: 1,000 instances of 64 ranks, and one of 4,096.

`python -m tests.bench.pages` is the process that counts queries: it asks Django itself for each path it is told.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil

from controlplane.domain.topology import SharedFacts
from controlplane.simulation.payload import encode, route_row
from controlplane.simulation.shape import Shape
from tests.bench.cases import Plan
from tests.bench.compare import fill
from tests.bench.load import Request
from tests.bench.report import Row, plain
from tests.bench.servers import POSTGRES, SQLITE, Ours, Server, Stable
from tests.support.people import session_keys
from tests.support.processes import Child
from tests.support.redis import Redis
from tests.support.web import Web

INSTANCES, USUAL, LARGE = 1000, Shape(dp=8, tp=8), Shape(dp=16, cp=2, tp=16, pp=8)
FACTS = SharedFacts(page_size=64, kv_cache_dtype="auto")
APART_SECONDS = 1.2
"""Longer than anything is remembered: each look is as slow as the first one after a change."""


@dataclass(frozen=True, slots=True)
class Look:
    """`parts`: only what a browser that has the page asks for; blank for the whole page."""

    name: str
    path: str
    refresh: bool = False


LOOKS = (
    Look("page: overview, 1,000 instances × 64 ranks", "/"),
    Look("page: overview, refresh of all its parts", "/", refresh=True),
    Look("page: instance of 4,096 ranks", "/instances/large/"),
    Look("page: instance of 4,096 ranks, refresh of all its parts", "/instances/large/", refresh=True),
    Look("page: activity, 24 hours", "/activity/?range=24h"),
)


def pages(stable: Stable, plan: Plan) -> Iterator[Row]:
    """One row a page and database; the ranks register over the wire, nobody probes them."""
    for name in (SQLITE, POSTGRES) if stable.has_postgres else (SQLITE,):
        ours = stable.start(name, PDCP_PROBE_NETWORKS="none")
        assert isinstance(ours, Ours)
        _register(ours)
        with tempfile.TemporaryDirectory(prefix="pdcp-p-") as short:
            redis = Redis(Path(short)).start()
            env = {**ours.backend.env, "REDIS_URL": redis.url, "PDCP_ENV_FILE": "/dev/null"}
            log = ours.backend.data_dir / "web.log"
            web = Web(env, log=log).start()
            cookie = f"sessionid={session_keys(env)['olga']}"
            counter = Child([sys.executable, "-m", "tests.bench.pages"], env=env, log=log, stdin=True)
            counter.wait_for_line("^counting$", timeout=60)
            for look in LOOKS:
                yield _measured(look, name, web, cookie, counter, times=5 if plan.quick else 20)
            counter.kill9()
            web.kill9()
            redis.kill9()
        stable.stop(ours)


def _register(server: Server) -> None:
    fill(server, [*_ranks("large", LARGE), *(r for n in range(INSTANCES) for r in _ranks(f"prefill-{n:04}", USUAL))])


def _ranks(instance: str, shape: Shape) -> Iterator[Request]:
    # Documentation address space: outside the networks that we probe.
    host = zlib.crc32(instance.encode()) % 250 + 1
    for at, slot in enumerate(shape.topology.slots()):
        row = route_row(shape, slot, FACTS, ip=f"203.0.113.{host}", port=20_000 + at, http_port=30_000)
        yield Request("PUT", f"/i/{instance}/route", encode(row).decode())


def _measured(look: Look, backend: str, web: Web, cookie: str, counter: Child, *, times: int) -> Row:
    port = web.port
    parts = ",".join(re.findall(r'data-part="(\w+)"', _get(port, cookie, look.path)[1])) if look.refresh else ""
    heard = len(counter.lines)
    counter.say(f"{look.path} {parts}".strip())
    queries = int(counter.wait_for_line(r"^queries (\d+)$", timeout=60, after=heard)[1])
    took: list[float] = []
    size, cpu = 0, _cpu_seconds(web)
    for _ in range(times):
        time.sleep(APART_SECONDS)
        seconds, said = _get(port, cookie, look.path, parts)
        took.append(1000 * seconds)
        size = len(said.encode())
    cpu = (_cpu_seconds(web) - cpu) / times
    again = min(_get(port, cookie, look.path, parts)[0] for _ in range(3)) * 1000
    note = f"{size:,} bytes, {queries} queries; asked again at once {again:.0f} ms"
    row = plain(look.name, backend, "ms", median(took), note=note)
    return replace(row, p50_ours_ms=row.ours, p99_ours_ms=round(max(took), 2), cpu_ours_us=round(cpu * 1e6))


def _cpu_seconds(web: Web) -> float:
    times = psutil.Process(web.pid).cpu_times()
    return times.user + times.system


def _get(port: int, cookie: str, path: str, parts: str = "") -> tuple[float, str]:
    """Seconds until the last byte, and what was said."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Cookie": cookie, **({"X-PDCP-Parts": parts} if parts else {})}
    try:
        connection.connect()
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        took = time.perf_counter() - began
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} answers {answer.status}: {said[:300]}")
    return took, said


def count() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.db import connections
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from tests.dashboard.samples import keep_samples

    keep_samples(time.time(), 86_400)
    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.get(username="olga"), backend="controlplane.access.backends.LimitedPasswords")
    print("counting", flush=True)
    for line in sys.stdin:
        path, _, parts = line.strip().partition(" ")
        caught = [CaptureQueriesContext(connections[alias]) for alias in connections]
        for one in caught:
            one.__enter__()
        client.get(path, headers={"X-PDCP-Parts": parts} if parts else {})
        for one in caught:
            one.__exit__(None, None, None)
        said = [query["sql"] for one in caught for query in one.captured_queries]
        print("queries", sum(not sql.startswith(("BEGIN", "COMMIT", "ROLLBACK", "SET ")) for sql in said), flush=True)


if __name__ == "__main__":
    count()
