"""Timelines in which our own process restarts, freezes, or loses sight of a rack: each on processes of its own."""

import http.client
import time
from collections.abc import Callable

from controlplane.simulation.wire import READY_QUERY
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap
from tests.timelines.actors import Cluster, Launch, Line, dp, eventually, place_of, tp
from tests.timelines.conftest import QUICK_PROBES

FLUSH_AFTER_RESTART_SECONDS = 12.0


def test_07_a_rack_out_of_sight_changes_no_health_and_heals_by_itself(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], cluster: Cluster
):
    """Several instances stop answering at once: the fault is probably ours."""
    bootstrap = make_bootstrap(sqlite_backend, **QUICK_PROBES).start()
    with (
        place_of(bootstrap, "rack-a", sqlite_backend.data_dir) as a,
        place_of(bootstrap, "rack-b", sqlite_backend.data_dir) as b,
    ):
        launches = [Launch(a, cluster, tp=4), Launch(b, cluster, tp=4)]
        for launch in launches:
            launch.register()
            launch.is_served()
        time.sleep(0.5)

        def paused() -> bool:
            return '"verdicts_paused":true' in a.line.ask("GET", "/readyz")[1].replace(" ", "")

        assert not paused()
        cluster.kill(*launches[0].ports.values(), *launches[1].ports.values())
        eventually(paused, what="verdicts paused")
        time.sleep(1.5)
        assert all(launch.serves for launch in launches)
        assert (a.health, b.health) == (200, 200)
        assert "verdicts_paused" in bootstrap.log()
        for launch in launches:
            for port in launch.ports.values():
                cluster.listen(port)
        eventually(lambda: not paused(), what="verdicts resumed")
        assert all(launch.serves for launch in launches)
        assert "rank.left" not in {event["kind"] for event in a.events() + b.events()}
        # And a death after it counts again.
        launches[0].die()
        eventually(lambda: a.health == 503, what="/health 503 of the instance that really died")
        assert b.health == 200


def test_08_our_restart_during_a_flush_goes_on_where_it_was(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], cluster: Cluster
):
    bootstrap = make_bootstrap(sqlite_backend, **QUICK_PROBES).start()
    with place_of(bootstrap, "default", sqlite_backend.data_dir) as place:
        old, decode = Launch(place, cluster, tp=2), place.decode()
        old.register()
        old.is_served()
        assert decode.ask("GET", "/health")[0] == 200
        old.die()
        new = Launch(place, cluster, tp=2)
        new.register()
        eventually(lambda: place.events("launch.promoted"), what="the new launch promoted")
        (before,) = place.sql("SELECT debt_since, debt_hold FROM controlplane_instance WHERE name = 'default'")
        assert decode.ask("GET", "/health")[0] == 503
        bootstrap.restart()
        back = time.monotonic()
        place.line.close()
        decode.close()
        # It has heard no once; whoever else polled before our restart may not have.
        heard = []
        while time.monotonic() - back < FLUSH_AFTER_RESTART_SECONDS - 4:
            heard.append(decode.ask("GET", "/health")[0])
            assert place.look_up(tp(0))[0] == 503
            time.sleep(1)
        assert set(heard) == {503}
        (after,) = place.sql("SELECT debt_since, debt_hold FROM controlplane_instance WHERE name = 'default'")
        assert after == before
        new.is_served()
        assert decode.ask("GET", "/health")[0] == 200


def test_12_a_frozen_leader_answers_nothing_from_memory_once_it_thaws(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], cluster: Cluster
):
    knobs = {**QUICK_PROBES, "PDCP_LEASE_SECONDS": 2}
    leader = make_bootstrap(sqlite_backend, **knobs).start()
    standby = make_bootstrap(sqlite_backend, **knobs)
    with place_of(leader, "default", sqlite_backend.data_dir) as place:
        old = Launch(place, cluster, dp=2)
        old.register()
        old.is_served()
        known = f"/route?prefill_dp_rank={dp(1).dp}&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0"
        caught = [place.decode() for _ in range(3)]
        assert all(line.ask("GET", known)[0] == 200 for line in caught)
        standby.launch().wait_standing_by()
        leader.freeze()
        standby.wait_ready()
        with place_of(standby, "default", sqlite_backend.data_dir) as there:
            old.die()
            new = Launch(there, cluster, dp=2)
            new.register()
            new.is_served(within=20)
            # Asked while frozen: the kernel keeps it, the leader finds it when it thaws.
            for line in caught:
                line.send(known)
            leader.thaw()
            for line in caught:
                assert line.hears_nothing(), "a frozen leader answered from memory"
            assert refused_or_closed(leader.kv_port, known)
            assert new.serves


def refused_or_closed(port: int, path: str) -> bool:
    line = Line(port, "default")
    try:
        line.ask("GET", path)
    except (http.client.HTTPException, OSError):
        return True
    finally:
        line.close()
    return False


def test_a_decode_that_was_told_a_moment_ago_is_told_no_before_the_next_launch_is_served(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap], cluster: Cluster
):
    """It keeps the topology and has not polled yet: without its first poll it would keep the dead ports for ever."""
    bootstrap = make_bootstrap(sqlite_backend, **QUICK_PROBES).start()
    with place_of(bootstrap, "default", sqlite_backend.data_dir) as place:
        old, decode = Launch(place, cluster, tp=1), place.decode()
        old.register()
        old.is_served()
        told = decode.ask("GET", f"/route?{READY_QUERY}", **{"User-Agent": "python-requests/2.32.3"})
        assert told[0] == 200
        old.die()
        new = Launch(place, cluster, tp=1)
        new.register()
        eventually(lambda: place.events("launch.promoted"), what="the new launch promoted")
        # Whoever polls five seconds apart hears no twice.
        time.sleep(3)
        assert decode.ask("GET", "/health")[0] == 503
        time.sleep(3)
        assert decode.ask("GET", "/health")[0] == 503
        eventually(lambda: place.health == 200, within=15, what="/health 200")
        new.is_served()
