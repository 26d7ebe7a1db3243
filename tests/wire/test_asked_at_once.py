"""A real bootstrap process: whom somebody doubts is asked at once, and sessions are asked as transfer engines are."""

import sys
import time

import pytest

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.cases.conftest import ranks, watch
from tests.cases.ranks import Ranks, complete, eventually
from tests.cases.test_health import register
from tests.controlplane.commands.on_backend import inside
from tests.controlplane.probes.test_mooncake import ENGINE
from tests.support.processes import Child, clean_env
from tests.wire.conftest import Server
from tests.wire.operators import rows

__all__ = ["ranks", "watch"]

CONTACT = "SELECT contact FROM controlplane_engineinfo WHERE state = 'live'"


def test_a_doubt_makes_ranks_be_asked_whose_turn_is_in_an_hour(watch, ranks: Ranks):
    from controlplane.commands import suspecting

    one: Server = watch(PDCP_PROBE_INTERVAL_SECONDS=3600)
    client, port = one.kv("p"), ranks.open()
    register(client, [port])
    complete(client)
    ranks.die(port)
    time.sleep(1.0)
    assert client.health() == 200, "nobody has asked"
    with inside(one.backend):
        assert suspecting.suspect("p", actor="anna").changed
        # A refusal counts when it comes twice, and each doubt asks once.
        end = time.monotonic() + 30
        while client.health() != 503:
            assert time.monotonic() < end
            time.sleep(0.2)
            suspecting.suspect("p", actor="anna")


def test_a_real_session_is_known_to_answer_and_to_hang(watch, tmp_path):
    pytest.importorskip("mooncake", reason="mooncake is not installed here")
    one: Server = watch()
    child = Child([sys.executable, "-c", ENGINE], env=clean_env(MC_LOG_LEVEL="ERROR"), log=tmp_path / "engine.log")
    try:
        port = int(child.wait_for_line(r"^port (\d+)$", timeout=60)[1])
        assert one.engine("w").publish(session=f"127.0.0.1:{port}", tp_rank=0).status == 200
        eventually(lambda: rows(one.backend, CONTACT) == [("up",)], within=30)
        child.freeze()
        eventually(lambda: rows(one.backend, CONTACT) == [("silent",)], within=30)
        assert one.engine("w").weights(0).status == 200, "that it hangs is shown, and no proof that it is gone"
        child.thaw()
        eventually(lambda: rows(one.backend, CONTACT) == [("up",)], within=30)
        child.kill9()
        eventually(lambda: rows(one.backend, CONTACT) == [], within=30)
    finally:
        child.kill9()
