"""Behind a relay workers need nobody else: the control plane is killed under traffic, and afterwards it has everything."""

import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.workers.agent.pairs import pair
from tests.workers.outage.scene import GENEROUS, Outage, at, evidence_is_complete, nothing_failed
from tests.workers.outage.traffic import Traffic
from tests.workers.relay.relays import Relay
from tests.workers.sdk.waiting import soon_here

METHODS = {"bound": "round_robin", "follows": "follow_bootstrap_room"}


@pytest.mark.timeout(120)
def test_the_control_plane_is_killed_behind_relays_and_no_request_fails_and_afterwards_nothing_is_missing(
    outage, tmp_path
):
    away_behind_relays(outage, tmp_path, seconds=3.0)


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_minute_without_the_control_plane_behind_relays_costs_no_request_no_room_and_no_evidence(outage, tmp_path):
    away_behind_relays(outage, tmp_path, seconds=60.0)


def away_behind_relays(outage: Outage, folder: Path, *, seconds: float) -> None:
    token_file = folder / "token"
    token_file.write_text(outage.token)
    with ExitStack() as stack:
        relays: dict[str, Relay] = {}
        running = []
        for name, method in METHODS.items():
            control_plane = f"127.0.0.1:{outage.plane.bootstrap.kv_port}"
            relay = relays[name] = Relay(folder, control_plane, name, "--token-file", str(token_file)).start()
            stack.callback(relay.kill9)
            stack.callback(lambda relay=relay: print(f"--- relay ---\n{relay.text()[-4000:]}"))
            prefill = {**outage.how(name), "dp": 2, "load_balance_method": method}
            both = stack.enter_context(pair(at(relay.address), prefill=prefill, decode=outage.how(None)))
            running.append(Traffic(both, name))
        for traffic in running:
            stack.callback(traffic.stop)
            traffic.start()
        soon_here(lambda: all(len(traffic.sent) >= 3 for traffic in running), within=GENEROUS)
        outage.leave()
        time.sleep(seconds)
        outage.come_back()
        back = time.time()
        again = {traffic.instance: len(traffic.sent) for traffic in running}
        soon_here(lambda: all(len(t.sent) >= again[t.instance] + 3 for t in running), within=GENEROUS)
        for traffic in running:
            traffic.stop()
            nothing_failed(traffic, outage)
        for name, relay in relays.items():
            relay.until_together()
            assert outage.complete(name)["launch"]["number"] == 1, "nobody was restarted, so it is the same launch"
            soon_here(lambda name=name: any(over > back for _, over in outage.leases(name)), within=GENEROUS)
        every_room_is_known(running[0], outage)
        for traffic in running:
            evidence_is_complete(traffic, outage)


def every_room_is_known(traffic: Traffic, outage: Outage) -> None:
    """Also those that were bound while nobody was there: by the control plane's own word, not the relay's."""
    rooms = [one.room for one in traffic.sent]

    def known() -> bool:
        answer = httpx.post(
            f"{outage.plane.bootstrap.kv_url}/query_dp_ranks",
            json={"bootstrap_rooms": rooms},
            headers={"X-PD-Instance": traffic.instance},
            timeout=30,
        )
        return answer.status_code == 200 and len(answer.json()) == len(rooms)

    soon_here(known, within=GENEROUS)
