"""A rank of SGLang that gave up registering serves unregistered; without a plugin an operator brings it back."""

import httpx
import pytest

from tests.controlplane.routers.real import eventually
from tests.support.processes import manage

SLOT = {"prefill_dp_rank": 0, "prefill_cp_rank": 0, "target_tp_rank": 0, "target_pp_rank": 0}


@pytest.mark.parametrize("hurry", [0.1, pytest.param(1.0, marks=[pytest.mark.soak, pytest.mark.timeout(300)])])
def test_a_rank_that_gave_up_while_we_were_away_is_brought_back_by_an_operator(
    sqlite_backend, make_bootstrap, sglang, hurry
):
    """SGLang waits 1, 2, 4 and 8 s between its tries, 12 s in all: `hurry` of it."""
    ours = make_bootstrap(sqlite_backend, PDCP_PROBE_INTERVAL_SECONDS=0.5).start()
    (port,) = sglang.open("gave_up", port=ours.kv_port, hurry=hurry)["ports"]
    evicted = manage("evict", "default", "--reason", "by mistake", "--wait", "60", env=ours.env)
    assert evicted.returncode == 0, evicted.stdout + evicted.stderr
    ours.kill9()
    assert sglang.go_on()["tried_for"] >= 11 * hurry
    ours.start()
    assert look_up(ours).status_code == 503, "nobody is registered, and nothing registers by itself"
    back = manage("reregister", "default", "--reason", "it gave up", "--wait", "60", env=ours.env)
    assert back.returncode == 0, back.stdout + back.stderr
    # It is served once it was probed, and decodes that knew it were told to forget (wire.md: a flush).
    eventually(lambda: look_up(ours).status_code == 200, within=60)
    assert look_up(ours).json() == {"rank_ip": "127.0.0.1", "rank_port": port}


def look_up(ours) -> httpx.Response:
    return httpx.get(f"{ours.kv_url}/route", params=SLOT, timeout=30, trust_env=False)
