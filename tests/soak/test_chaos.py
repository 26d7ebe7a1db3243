"""Five minutes in which every process of `manage.py up` is killed, stopped and frozen, under load."""

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.crash.audit import audit
from tests.crash.storm import Storm
from tests.crash.test_database_trouble import recovery
from tests.soak.hooks import Note
from tests.soak.report import share
from tests.supervisor.conftest import Up
from tests.support.plugin import Backend
from tests.support.processes import freeze

pytestmark = pytest.mark.soak
SECONDS = 300.0
RECOVERS_WITHIN = 5.0

PARTS = {
    "bootstrap": "manage.py bootstrap",
    "web": "manage.py web",
    "celery": "celery",
    "redis": "-server",
}
DISASTERS = [
    ("bootstrap", "kill"),
    ("bootstrap", "kill"),
    ("bootstrap", "terminate"),
    ("bootstrap", "freeze"),
    ("redis", "kill"),
    ("web", "kill"),
    ("web", "freeze"),
    ("celery", "kill"),
    ("all", "kill"),
]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path / "data")
    yield made.wait_ready()
    made.close()
    print(made.output[-10000:])


def test_five_minutes_of_chaos_lose_nothing_and_everything_comes_back(running: Up, tmp_path: Path, note: Note):
    choose = random.Random(5)
    backend = Backend("sqlite", tmp_path / "data")
    ports = running.ports
    storm = Storm(ports["PDCP_KV_PORT"], ports["PDCP_ENGINE_INFO_PORT"], seed=5, patient=True)
    happened: dict[str, int] = {}
    slowest: dict[str, float] = {}
    end = time.monotonic() + SECONDS * share()
    while time.monotonic() < end:
        part, what = choose.choice(DISASTERS)
        frozen: list[psutil.Process] = []

        def disaster(part: str = part, what: str = what, frozen: list[psutil.Process] = frozen) -> None:
            for name, words in PARTS.items():
                if part in (name, "all"):
                    strike(running, words, what, frozen)

        async def play(disaster=disaster, frozen=frozen) -> float:
            asyncio.get_running_loop().call_later(4.5, lambda: [p.send_signal(signal.SIGCONT) for p in frozen])
            await storm.blow(choose.uniform(0.5, 1.5), disaster, after=4.0)
            return await recovery(Ports(ports["PDCP_KV_PORT"], ports["PDCP_ENGINE_INFO_PORT"]))

        took = asyncio.run(play())
        key = f"{part} {what}"
        happened[key] = happened.get(key, 0) + 1
        slowest[key] = max(slowest.get(key, 0.0), took)
        for process in frozen:
            process.send_signal(signal.SIGCONT)
        wrong = storm.wrong + asyncio.run(audit(storm, backend))
        assert not wrong, f"after {key}:\n" + "\n".join(wrong[:20])
        assert took < RECOVERS_WITHIN, f"after {key} it took {took:.1f} s to acknowledge writes again"
        wait_for_web(running)
    note("disasters", ", ".join(f"{count} × {key}" for key, count in sorted(happened.items())))
    note("slowest recovery after 4 s of disaster", f"{max(slowest.values()):.1f} s")
    registered = sum(len(attempt.acknowledged) for attempts in storm.attempts.values() for attempt in attempts)
    note(
        "acknowledged",
        f"{registered} ranks, {storm.rooms.acknowledged} rooms, {storm.engines.acknowledged} dictionaries",
    )
    note("connections that closed without an answer", storm.lost)


class Ports:
    """What `recovery` needs of a bootstrap process."""

    def __init__(self, kv_port: int, engine_port: int) -> None:
        self.kv_port, self.engine_port = kv_port, engine_port


def strike(running: Up, words: str, what: str, frozen: list[psutil.Process]) -> None:
    try:
        process = running.child(words)
        if what == "freeze":
            freeze(process.pid)
            frozen.append(process)
        elif what == "kill":
            process.kill()
        else:
            process.terminate()
    except (psutil.NoSuchProcess, ProcessLookupError, AssertionError):
        # It is being started again right now.
        pass


def wait_for_web(running: Up, within: float = 20) -> None:
    end = time.monotonic() + within
    while True:
        try:
            answer = httpx.get(f"{running.web}/readyz", timeout=5)
            if answer.status_code == 200:
                return
        except httpx.HTTPError as why:
            answer = why  # type: ignore[assignment]
        assert time.monotonic() < end, f"the web process is not ready: {answer}"
        time.sleep(0.2)
