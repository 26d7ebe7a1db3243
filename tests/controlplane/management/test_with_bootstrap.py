"""An operator's afternoon with a real bootstrap process and ranks that really listen, on both databases."""

import os
import signal
import sys
import time

import httpx

from tests.support.processes import Child

ONE = "dp0.cp0.tp1.pp0"


def test_a_fleet_is_shown_explained_and_changed(operator, simulate, bootstrap):
    ranks = simulate(operator.env, "--dp", "2", "--tp", "2", "--skip", "dp1,tp1", "--instance", "prefill-a")
    found = operator.until(
        "fleet", "prefill-a", holds=lambda f: all(r["contact"] == "up" for r in f["instance"]["ranks"])
    )
    assert found["bootstrap"]["leads"]
    instance = found["instance"]
    assert (instance["registered"], instance["expected"], instance["serving"]) == (3, 4, False)
    assert instance["missing"] == ["dp1.cp0.tp1.pp0"]
    assert instance["why"] == "prefill-a is not serving: 3/4, missing dp1 tp1."

    told = operator.run("fleet")
    assert told.returncode == 0
    header, line = told.stdout.splitlines()[:2]
    assert header.split() == ["NAME", "ROLE", "STATE", "RANKS", "HEALTH", "WHY"]
    assert line.split()[:5] == ["prefill-a", "prefill", "incomplete", "3/4", "200"]
    assert line.endswith("3/4, missing dp1 tp1.")

    evicted = operator.run("request", "evict", "prefill-a", "--slot", ONE, "--actor", "anna", "--reason", "broken NIC")
    assert (evicted.returncode, evicted.stderr) == (0, "")
    assert evicted.stdout.startswith("Granted: ") and "was evicted" in evicted.stdout
    assert "dp0 tp1 at 127.0.0.1:" in operator.run("fleet", "prefill-a").stdout
    assert "does not count: evicted by anna: broken NIC" in operator.run("fleet", "prefill-a").stdout

    code, answer = operator.json("request", "readmit", "prefill-a", "--slot", "dp0 tp1")
    assert (code, answer["granted"], answer["slot"]) == (0, True, ONE)
    code, answer = operator.json("request", "supersede", "prefill-a")
    assert (code, answer["answered"], answer["granted"]) == (1, True, False)
    assert operator.run("request", "evict", "ghost").returncode == 1

    ranks.kill9()
    operator.until("fleet", "prefill-a", holds=lambda f: f["instance"]["registered"] == 0)
    told = operator.run("fleet", "prefill-a").stdout
    assert "does not count: greeted before, and it refuses connections now" in told

    code, events = operator.json("events", "--instance", "prefill-a", "--kind", "request", "--limit", "100")
    assert [event["kind"] for event in events] == ["request.made", "request.answered"] * 3
    assert events[0]["actor"] == "anna"


def test_a_rank_with_nobody_behind_its_address_is_explained(operator, simulate):
    simulate(operator.env, "--tp", "2", "--instance", "ghost", "--no-listen")
    found = operator.until("fleet", "ghost", holds=lambda f: f["instance"]["registered"] == 0)
    assert any(
        said.startswith("dp0 tp1 at 127.0.0.1:")
        and "does not count: nobody listens there, the connection was refused" in said
        for said in found["instance"]["explanation"]
    )


def test_rooms_are_found_with_their_collisions(operator, bootstrap):
    room = 2**62
    with httpx.Client(base_url=bootstrap.kv_url, timeout=30) as client:
        for dp in (1, 0):
            assert client.post("/register_dp_rank", json={"bootstrap_room": room, "dp_rank": dp}).status_code == 200
        client.post("/register_dp_rank", json={"bootstrap_room": room + 1, "dp_rank": 0})
    # A collision is written behind the binding that made it.
    operator.until(
        "rooms", "find", str(room), holds=lambda found: any(each["collisions"] for each in found["bindings"])
    )
    code, found = operator.json("rooms", "find", str(room))
    assert (code, found["room"]) == (0, str(room))
    (binding,) = found["bindings"]
    assert (binding["instance"], binding["dp_rank"], binding["live"]) == ("default", 0, True)
    assert [(c["before"], c["after"]) for c in binding["collisions"]] == [(1, 0)]
    told = operator.run("rooms", "find", str(room)).stdout
    assert told.startswith(f"Room {room} is bound to dp0 of default for another ")
    assert "dp0 took it from dp1" in told
    missing = operator.run("rooms", "find", "5")
    assert missing.returncode == 1 and "Room 5 is not bound." in missing.stdout


def test_an_own_port_is_opened_and_closed_live(operator, bootstrap):
    from tests.support.ports import free_port, is_open

    port = free_port()
    assert operator.run("instances", "add", "solo", "--own-port", str(port)).returncode == 0
    wait_until(lambda: is_open(port))
    assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=30).status_code == 200
    assert operator.run("instances", "retire", "solo").returncode == 0
    wait_until(lambda: not is_open(port))
    assert httpx.get(f"{bootstrap.kv_url}/i/solo/health", timeout=30).status_code == 404


def test_events_are_followed_as_they_happen_and_ctrl_c_ends_it_well(operator, tmp_path):
    operator.run("instances", "add", "a")
    argv = [sys.executable, "manage.py", "events", "--follow", "--json", "--after", "0"]
    follower = Child(argv, env=operator.env, log=tmp_path / "follow.log")
    try:
        follower.wait_for_line(r'"kind": "instance.added", "instance": "a"', timeout=60)
        begun = time.monotonic()
        operator.run("instances", "retire", "a", "--reason", "ünïcode")
        follower.wait_for_line(r'"kind": "instance.retired".*ünïcode', timeout=20)
        # A poll every 250 ms, without Redis, and what a busy machine adds.
        assert time.monotonic() - begun < 10
        os.kill(follower.pid, signal.SIGINT)
        assert follower.wait(30) == 0
        assert "Traceback" not in follower.log()
    finally:
        follower.kill9()


def wait_until(holds, within: float = 20) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
