"""A minute in which everything is killed, in the order of seeded dice, under load: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.chaos import VICTIMS, Chaos
from tests.crash.test_database_trouble import recovery
from tests.supervisor.conftest import Up
from tests.support.machine import slowness

SECONDS, PARTS = 50.0, 3
RECOVERS_WITHIN = 8.0
SEED = 20_261


class Ports:
    """What `recovery` needs of a bootstrap process."""

    def __init__(self, up: Up) -> None:
        self.kv_port, self.engine_port = up.ports["PDCP_KV_PORT"], up.ports["PDCP_ENGINE_INFO_PORT"]


@pytest.fixture
def chaos(tmp_path: Path) -> Iterator[Chaos]:
    up = Up(tmp_path / "data")
    try:
        yield Chaos(up.wait_ready(), tmp_path / "data", seed=SEED)
    finally:
        up.close()
        print(up.output[-10000:])


@pytest.mark.timeout(400)
def test_a_minute_of_kills_in_random_order_loses_nothing_and_leaves_no_task_stuck(chaos: Chaos):
    for _ in range(PARTS):
        asyncio.run(chaos.rage(SECONDS / PARTS, strike=chaos.kill))
        took = asyncio.run(recovery(Ports(chaos.up)))  # type: ignore[arg-type]
        wrong = asyncio.run(chaos.judge())
        assert not wrong, f"after {dict(chaos.happened)}:\n" + "\n".join(wrong[:20])
        assert took / slowness() < RECOVERS_WITHIN
    print(dict(chaos.happened), chaos.storm.answers, f"{chaos.steering.acknowledged} intents")
    assert set(chaos.happened) == {f"{part} killed" for part in VICTIMS}
    assert chaos.storm.rooms.acknowledged > 100 and chaos.steering.acknowledged > 10
