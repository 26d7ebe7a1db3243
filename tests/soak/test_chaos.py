"""Ten minutes in which every process of `manage.py up` is killed, stopped and frozen, under load."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.chaos import Chaos
from tests.crash.test_chaos import Ports
from tests.crash.test_database_trouble import recovery
from tests.soak.hooks import Note
from tests.soak.report import share
from tests.supervisor.conftest import Up
from tests.support.machine import slowness

pytestmark = pytest.mark.soak
SECONDS = 600.0
RECOVERS_WITHIN = 5.0


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    # A room lives longer than the whole of it: the books know of no expiry.
    up = Up(tmp_path / "data", PDCP_ROOM_TTL_SECONDS=4 * SECONDS)
    try:
        yield Chaos(up.wait_ready(), tmp_path / "data", seed=6)
    finally:
        up.close()
        print(up.output[-10000:])


def test_ten_minutes_of_chaos_lose_nothing_and_everything_comes_back(chaos: Chaos, note: Note):
    slowest = 0.0
    end = time.monotonic() + SECONDS * share()
    while time.monotonic() < end:
        asyncio.run(chaos.rage(chaos.dice.uniform(4.0, 12.0), strike=chaos.disaster))
        # The last one may still be on its way back.
        took = asyncio.run(recovery(Ports(chaos.up))) / slowness()  # type: ignore[arg-type]
        slowest = max(slowest, took)
        wrong = asyncio.run(chaos.judge())
        assert not wrong, f"after {dict(chaos.happened)}:\n" + "\n".join(wrong[:20])
        assert took < RECOVERS_WITHIN, f"it took {took:.1f} s to acknowledge writes again"
    storm = chaos.storm
    note("disasters", ", ".join(f"{count} × {what}" for what, count in sorted(chaos.happened.items())))
    note("slowest recovery", f"{slowest:.1f} s")
    registered = sum(len(attempt.acknowledged) for attempts in storm.attempts.values() for attempt in attempts)
    note(
        "acknowledged",
        f"{registered} ranks, {storm.rooms.acknowledged} rooms, {storm.engines.acknowledged} dictionaries,"
        f" {chaos.steering.acknowledged} intents",
    )
    note("connections that closed without an answer", storm.lost)
