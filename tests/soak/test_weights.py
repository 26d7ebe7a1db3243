"""64 replicas pull their weights at once; whoever asks for rooms meanwhile is answered as before."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tests.workers.mooncake_ports  # noqa: F401
from tests.soak.hooks import Note
from tests.soak.measure import beside, bind_many, percentile, query_rooms, shown
from tests.soak.pullers import MODEL
from tests.support.machine import slowness
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, Child, clean_env

pytestmark = pytest.mark.soak
PULLS, PROCESSES = 64, 4
SEEDS = ("seed-a", "seed-b")
LOOK_UP_SECONDS = 0.05


def test_sixty_four_pulls_at_once_leave_room_look_ups_their_p99(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], tmp_path: Path, note: Note
):
    bootstrap = make_bootstrap(sqlite_backend).start()
    # Bound while the listener has one instance, which need not be named then.
    asyncio.run(bind_many(bootstrap.kv_port, 0, 5000))
    at, env = f"127.0.0.1:{bootstrap.engine_port}", clean_env(OMP_NUM_THREADS=1)
    size = [word for name, value in MODEL.items() for word in (f"--{name}", str(value))]
    children: list[Child] = []

    def start(name: str, *words: str) -> Child:
        # In a fleet these are other hosts; on this one they give way to what is measured.
        command = ["nice", "-n", "15", sys.executable, "-m", *words]
        children.append(Child(command, env=env, log=tmp_path / f"{name}.log", stdin=True))
        return children[-1]

    try:
        for seed in SEEDS:
            start(seed, "workers.weights", "seed", "--engine-info", at, "--instance", seed, *size)
        for child in children:
            child.wait_for_line("^seed ready", timeout=120)
        pullers = [
            start(f"p{n}", "tests.soak.pullers", at, str(PULLS // PROCESSES), f"p{n}", *SEEDS) for n in range(PROCESSES)
        ]
        for child in pullers:
            child.wait_for_line("^READY", timeout=120)

        async def play() -> tuple[list[float], list[float]]:
            alone = await query_rooms(bootstrap.kv_port, rooms=5000, seconds=5, instance="default")

            async def until_they_end() -> None:
                for child in pullers:
                    child.say("go")
                for child in pullers:
                    assert await asyncio.to_thread(child.wait, 400) == 0, child.log()

            return alone, await beside(until_they_end, bootstrap.kv_port, rooms=5000, instance="default")

        slow = slowness()
        alone, crowded = asyncio.run(play())
        for child in pullers:
            note("pulled", next(line for line in child.lines if "pulls of" in line))
        note("room queries alone", shown(alone))
        note(f"room queries beside {PULLS} pulls", shown(crowded))
        assert percentile(crowded, 0.99) / 1000 / slow < max(LOOK_UP_SECONDS, 3 * percentile(alone, 0.99) / 1000)
    finally:
        for child in children:
            child.kill9()
