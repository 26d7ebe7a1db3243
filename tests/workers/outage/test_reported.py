"""Report mode: engines keep their own bootstrap servers (the real SGLang's), and the control plane has a copy."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.compat.conftest import _why_not
from tests.support.ports import free_port
from tests.workers.agent.pairs import pair
from tests.workers.outage.scene import GENEROUS, Outage, at, evidence_is_complete, nothing_failed
from tests.workers.outage.traffic import Traffic
from tests.workers.sdk.test_real_sglang import Side
from tests.workers.sdk.waiting import soon_here
from workers.agent.asking import Request
from workers.agent.decode import Decode
from workers.agent.settings import Settings
from workers.sdk import Client, Rank, Registered, Unreachable, requested_place

BOUND, FOLLOWS, AUTHORITY = "bound", "follows", "authority"


@pytest.fixture(scope="module")
def sglang(tmp_path_factory):
    if missing := _why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    side = Side(tmp_path_factory.mktemp("sglang") / "log")
    yield side
    side.end()


@pytest.mark.timeout(120)
def test_the_control_plane_is_killed_under_traffic_and_no_request_fails_and_afterwards_nothing_is_missing(
    outage, sglang
):
    away_under_traffic(outage, sglang, seconds=3.0)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_minute_without_the_control_plane_costs_no_request_and_no_evidence(outage, sglang):
    away_under_traffic(outage, sglang, seconds=60.0)


@contextmanager
def copied(outage: Outage, name: str, ranks: list[Rank]) -> Iterator[Registered]:
    """What the plugin does in report mode: a client on a thread of its own keeps a copy of the registration with us."""
    with Client(outage.plane.at(name, outage.token), token=f"launch-of-{name}") as client:
        kept = client.register(ranks, lease_seconds=3)
        kept.wait(within=GENEROUS)
        yield kept


def away_under_traffic(outage: Outage, sglang: Side, *, seconds: float) -> None:
    with ExitStack() as stack:
        copies, running = {}, []
        for name, method in ((BOUND, "round_robin"), (FOLLOWS, "follow_bootstrap_room")):
            own = f"127.0.0.1:{free_port()}"
            sglang("serve", int(own.rpartition(":")[2]), free_port())
            prefill = {**outage.how(name), "dp": 2, "load_balance_method": method}
            both = stack.enter_context(pair(at(own), prefill=prefill, decode=outage.how(None)))
            copies[name] = stack.enter_context(copied(outage, name, both.prefill.ranks(30000)))
            running.append(Traffic(both, name))
        # Of those that register with us, whoever follows the room needs us for no request of a pair that has met.
        authority = at(f"{AUTHORITY}:x@127.0.0.1:{outage.plane.bootstrap.kv_port}")
        prefill = {**outage.how(AUTHORITY), "dp": 2}
        decode = outage.how(None)
        running.append(Traffic(stack.enter_context(pair(authority, prefill=prefill, decode=decode)), AUTHORITY))
        for traffic in running:
            stack.callback(traffic.stop)
            traffic.start()
        soon_here(lambda: all(len(traffic.sent) >= 3 for traffic in running), within=GENEROUS)
        outage.leave()
        # Whoever comes up meanwhile is not lost either.
        late = stack.enter_context(Client(outage.plane.at("late", outage.token), token="launch-of-late"))
        registered = late.register([Rank(rank_ip="127.0.0.1", rank_port=free_port(), page_size=4)], lease_seconds=3)
        time.sleep(seconds)
        lost = could_not_be_resolved(outage, stack)
        assert not registered.standing.is_registered
        outage.come_back()
        back = time.time()
        again = {traffic.instance: len(traffic.sent) for traffic in running}
        soon_here(lambda: all(len(t.sent) >= again[t.instance] + 3 for t in running), within=GENEROUS)
        for traffic in running:
            traffic.stop()
            nothing_failed(traffic, outage)
        for name in (BOUND, FOLLOWS, AUTHORITY):
            assert outage.complete(name)["launch"]["number"] == 1, "nobody was restarted, so it is the same launch"
        registered.wait(within=GENEROUS)
        assert outage.complete("late")["registered"] == 1
        for name, copy in copies.items():
            soon_here(lambda copy=copy: copy.standing.trouble == "" and copy.standing.is_registered, within=GENEROUS)
            soon_here(lambda name=name: all(over > back for _, over in outage.leases(name)), within=GENEROUS)
        for traffic in running:
            evidence_is_complete(traffic, outage)
        said = soon_here(
            lambda: (now := outage.explained(lost))["conclusion"]["kind"] == "failed" and now, within=GENEROUS
        )
        assert said["conclusion"]["head"] == "Failed at resolved."
        assert f"unreachable at {BOUND}" in said["rungs"][1]["claims"][0]["sentence"]


def could_not_be_resolved(outage: Outage, stack: ExitStack) -> int:
    """A room whose prefill's server nobody could ask: told of once somebody takes reports again."""
    decode = Decode(Settings(mode="decode", timeout=0.5, **outage.how(None)))
    stack.callback(decode.close)
    room = decode.client.mint.room()
    place = requested_place(f"{BOUND}:x@127.0.0.1", free_port())
    with pytest.raises(Unreachable):
        decode.serve(Request((1, 2, 3), room, 2, place, "lost", False))
    assert decode.client._client.reports is not None and decode.client._client.reports.waiting == 1
    return room
