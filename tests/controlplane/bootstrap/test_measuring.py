"""What a term tells that no client can see from outside: connections that had to go, waits that nobody ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.bootstrap import measuring
from controlplane.bootstrap.commits import Commits
from controlplane.bootstrap.fleet import Fleet, Instance
from controlplane.bootstrap.listeners import Listeners
from controlplane.bootstrap.lookups import Lookups
from controlplane.bootstrap.tally import PATIENCE_SECONDS, Tally
from controlplane.domain.directory import Directory
from controlplane.probes.timing import Timing
from tests.controlplane.metrics.scraping import Scrape


def leader(**parts: Any) -> Any:
    """As much of a leader as is read, at rest."""
    fleet = parts.pop("fleet", Fleet(room_limit=10))
    resting: dict[str, Any] = {
        "token": 7,
        "fleet": fleet,
        "kv_door": SimpleNamespace(tally=parts.pop("tally", Tally())),
        "lookups": SimpleNamespace(waiting=0, given_up=0),
        "listeners": SimpleNamespace(connections=[], limit=100, closed_for_room=0),
        "recorder": SimpleNamespace(commits=Commits()),
        "rooms": SimpleNamespace(commits=Commits(), bound=0, expired=0, collisions=0, reused=0),
        "watch": SimpleNamespace(timing=Timing(), sweeps=0, swept=0, sweep_seconds=0.0, paused=False),
    }
    return SimpleNamespace(**{**resting, **parts})


def scrape(**parts: Any) -> Scrape:
    return Scrape.here(measuring.measure(leader(**parts)))


async def test_connections_that_were_closed_for_room_are_counted():
    fleet = Fleet(room_limit=10)
    door = SimpleNamespace(reading=SimpleNamespace(open=True, is_near=lambda host: True))
    listeners = Listeners(fleet, host="127.0.0.1", deadline=lambda: 1e12, tally=Tally(), limit=3)
    port = await listeners.open("kv", door, 0, "PDCP_KV_PORT")  # type: ignore[arg-type]
    opened = []
    try:
        for _ in range(5):
            opened.append(await asyncio.open_connection("127.0.0.1", port))
        async with asyncio.timeout(60):
            while listeners.closed_for_room < 2:
                await asyncio.sleep(0.01)
        said = scrape(listeners=listeners)
        assert said.value("pdcp_connections_closed_for_room_total") == 2
        assert said.value("pdcp_connections") == said.value("pdcp_connection_limit") == 3
    finally:
        for _, writer in opened:
            writer.close()
        await listeners.close(abrupt=True)


def test_waits_that_nobody_ends_are_given_up_and_counted():
    tally = Tally()
    tally.hosts.missed("p", ["10.0.0.1"], 100.0)
    lookups = Lookups(SimpleNamespace(), share=1.0)  # type: ignore[arg-type]
    lookups.asked(1, "10.0.0.9", [7, 8], {8: 0}, 100.0)
    said = scrape(tally=tally, lookups=lookups)
    assert said.value("pdcp_waiting", phase="topology") == said.value("pdcp_waiting", phase="room") == 1
    tally.let_go(100.0 + PATIENCE_SECONDS)
    lookups.rows(106.0)
    lookups.rows(100.0 + PATIENCE_SECONDS)
    said = scrape(tally=tally, lookups=lookups)
    for phase in ("topology", "room"):
        assert said.value("pdcp_waiting", phase=phase) == 0
        assert said.value("pdcp_waits_given_up_total", phase=phase) == 1
        assert said.value("pdcp_wait_seconds_count", phase=phase) == 0


def test_what_may_happen_stands_at_zero_before_it_has():
    said = scrape()
    assert said.value("pdcp_refusals_total", reason="conflict") == 0
    assert said.value("pdcp_lookup_misses_total", what="topology", why="incomplete") == 0
    assert said.value("pdcp_probes_total", result="refused") == 0
    assert said.value("pdcp_commit_failures_total", recorder="rooms", why="unknown") == 0
    assert said.value("pdcp_wait_seconds_count", phase="room") == 0


@pytest.mark.parametrize(
    ("role", "told"), [("prefill", True), ("decode", False), ("seed", False)], ids=["prefill", "decode", "seed"]
)
def test_an_instance_of_which_ranks_are_expected_is_told_before_any_is_there(role, told):
    fleet = Fleet(room_limit=10)
    fleet.add(Instance(1, "p", role, directory=Directory("p")))
    fleet.add(Instance(2, "gone", intent="retired", directory=Directory("gone")))
    series = scrape(fleet=fleet).series("pdcp_instance_ranks_registered")
    assert series == ({(("pd_instance", "p"), ("role", role)): 0} if told else {})
