"""How long it takes from a commit until a socket has it: a web process, many sockets, another process that commits.

`python -m tests.bench.live` is that other process: it says a token, then commits as often as it is told to.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.bench.cases import Plan
from tests.bench.report import Row, plain
from tests.bench.servers import POSTGRES, SQLITE, Ours, Stable
from tests.support.processes import Child
from tests.support.redis import Redis
from tests.support.web import Web

PACES = ((4, "in quiet times, 4 changes a second"), (100, "at 100 changes a second"))
SOCKETS = 200
SOME_SECONDS = 10


def commit_to_socket(stable: Stable, plan: Plan) -> Iterator[Row]:
    """One row a pace and database. What changes more than ten times a second is told together, ten times a second."""
    seconds = SOME_SECONDS // 2 if plan.quick else SOME_SECONDS
    for name in (SQLITE, POSTGRES) if stable.has_postgres else (SQLITE,):
        ours = stable.start(name)
        assert isinstance(ours, Ours)
        with tempfile.TemporaryDirectory(prefix="pdcp-l-") as short:
            redis = Redis(Path(short)).start()
            env = {**ours.backend.env, "REDIS_URL": redis.url, "PDCP_ENV_FILE": "/dev/null"}
            log = ours.backend.data_dir / "web.log"
            web = Web(env, log=log).start()
            writer = Child([sys.executable, "-m", "tests.bench.live"], env=env, log=log, stdin=True)
            token = writer.wait_for_line(r"^token (\S+)$", timeout=60)[1]
            for pace, words in PACES[-1:] if plan.quick else PACES:
                took = asyncio.run(_latencies(web, writer, token, pace, seconds))
                note = f"{len(took)} changes, from before the commit to the last byte read; one of the sockets is timed"
                row = plain(f"commit to socket {words}", name, "ms", median(took), note=note)
                p99 = round(sorted(took)[int(0.99 * (len(took) - 1))], 2)
                yield replace(row, connections=SOCKETS, p50_ours_ms=row.ours, p99_ours_ms=p99)
            writer.kill9()
            web.kill9()
            redis.kill9()
        stable.stop(ours)


async def _latencies(web: Web, writer: Child, token: str, pace: int, seconds: int) -> list[float]:
    """Milliseconds of each change on one socket, while all of them are told."""
    headers = {"Authorization": f"Bearer {token}"}
    sockets = [await connect(web.socket_url, additional_headers=headers, max_size=None) for _ in range(SOCKETS)]
    others = [asyncio.create_task(_heard(socket)) for socket in sockets[1:]]
    took: list[float] = []
    writer.say(f"{pace} {seconds}")
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(3):
                message = json.loads(await sockets[0].recv())
            now = time.time()
            took += [
                1000 * (now - event["data"]["sent"])
                for event in message.get("events", [])
                if event["kind"] == "bench.committed"
            ]
    for other in others:
        other.cancel()
    for socket in sockets:
        socket.transport.abort()
    return took


async def _heard(socket: object) -> None:
    with suppress(ConnectionClosed):
        async for _ in socket:  # type: ignore[attr-defined]
            pass


def commit() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django

    django.setup()
    from django.contrib.auth.models import User

    from controlplane.access import tokens
    from controlplane.commands.transaction import record
    from controlplane.ledger.append import NewEvent

    maker = User.objects.create_superuser("bench")
    print("token", tokens.make("bench", ["read"], "", None, maker)[1], flush=True)
    for line in sys.stdin:
        pace, seconds = map(int, line.split())
        began = time.monotonic()
        for count in range(pace * seconds):
            time.sleep(max(0.0, began + count / pace - time.monotonic()))
            record(lambda: (None, [NewEvent("bench.committed", "", {"sent": time.time()})]))


if __name__ == "__main__":
    commit()
