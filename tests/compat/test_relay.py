"""Managers and receivers of the real SGLang at a relay: registration, heartbeats, restarts; control plane there or away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.test_failures import assert_never_mixed
from tests.support.plugin import Backend
from tests.support.ports import free_port
from tests.wire.client import Client
from tests.workers.relay.relays import Relay


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Relay]:
    """Its control plane has never been there."""
    made = Relay(tmp_path, f"127.0.0.1:{free_port()}", "prefill-a").start()
    yield made
    made.kill9()
    print(f"--- relay ---\n{made.text()[-4000:]}")


@pytest.fixture
def ours(sqlite_backend: Backend, make_bootstrap):
    return make_bootstrap(sqlite_backend, PDCP_PROBE_INTERVAL_SECONDS=0.5).start()


@pytest.fixture
def together(ours, tmp_path: Path) -> Iterator[Relay]:
    made = Relay(tmp_path, f"127.0.0.1:{ours.kv_port}", "prefill-a").start()
    made.until_together()
    yield made
    made.kill9()
    print(f"--- relay ---\n{made.text()[-4000:]}")


@pytest.mark.parametrize("control_plane", ["away", pytest.param("together", marks=pytest.mark.soak)])
def test_new_ports_of_a_restarted_prefill_reach_a_real_decode_through_the_relays_health(
    request, sglang, control_plane: str
):
    relay = request.getfixturevalue(control_plane)
    facts = sglang.open("restarted_prefill", port=relay.port, patience=30, pause=0)
    assert facts["before"] == facts["old"], "the cache was not filled"
    assert facts["seen"][-1][1] == facts["new"], facts["seen"]
    assert_never_mixed(facts)


def test_a_relay_that_was_killed_has_forgotten_nothing_though_nobody_else_knows(away, sglang):
    assert sglang.open("restarted_directory", port=away.port) == {"registered": 4}
    away.restart()
    facts = sglang.go_on()
    assert facts["ready"] and facts["room_in_flight_survived"]
    assert facts["fresh"] == facts["cached"] == facts["wanted"]
    assert facts["room"] == {"77": 1}


@pytest.mark.soak
def test_the_control_plane_comes_back_and_real_decodes_notice_nothing(together, ours, sglang):
    assert sglang.open("restarted_directory", port=together.port) == {"registered": 4}
    together.until(lambda status: status["same_as_control_plane"] and status["serves"])
    ours.kill9()
    together.until_away()
    ours.start()
    together.until_together()
    facts = sglang.go_on()
    assert facts["ready"] and facts["room_in_flight_survived"]
    assert facts["fresh"] == facts["cached"] == facts["wanted"]
    assert facts["room"] == {"77": 1}
    direct = Client(ours.kv_port, headers={"X-PD-Instance": "prefill-a"})
    assert direct.topology().status == 200 and direct.find(77).json() == {"77": 1}
