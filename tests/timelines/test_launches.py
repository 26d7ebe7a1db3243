"""Timelines in which launches meet: with ranks that really listen and the real process, probed every 0.3 s."""

import time

import pytest

from controlplane.domain.topology import Slot
from tests.support.ports import free_port
from tests.support.processes import manage
from tests.timelines.actors import ALL, SOON, Cluster, Launch, Line, Place, dp, eventually, tp

HALF = [tp(0), tp(1), tp(2)]


def left(place: Place, count: int) -> bool:
    return len(place.events("rank.left")) >= count


def no_candidate(place: Place) -> bool:
    return "candidate" not in place.open_launches().values()


def poll_until(decode: Line, wanted: int, *, within: float = SOON) -> list[int]:
    """What one decode hears on `/health`, up to the answer it waits for."""
    heard: list[int] = []

    def asks() -> bool:
        time.sleep(0.05)
        heard.append(decode.ask("GET", "/health")[0])
        return heard[-1] == wanted

    eventually(asks, within=within, what=f"/health {wanted}")
    return heard


def test_01_half_a_launch_that_died_does_not_complete_the_next_one(place: Place, cluster: Cluster):
    first = Launch(place, cluster, tp=4)
    first.register(*HALF)
    first.die()
    eventually(lambda: left(place, 3), what="three ranks left")
    second = Launch(place, cluster, tp=4)
    second.register(tp(3))
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        assert place.look_up()[0] == 503
        time.sleep(0.05)
    second.register(tp(0), tp(1))
    assert place.look_up()[0] == 503
    second.register(tp(2))
    second.is_served()
    assert place.health == 200


def test_01b_nor_does_one_that_died_this_very_moment_for_longer_than_a_sweep(place: Place, cluster: Cluster):
    first = Launch(place, cluster, tp=4)
    first.register(*HALF)
    eventually(lambda: len(place.events("rank.probed")) >= 3, what="three ranks greeted")
    first.die()
    second = Launch(place, cluster, tp=4)
    second.register(tp(3))
    eventually(lambda: left(place, 3), what="three ranks left")
    # It is answered a moment after it is stored.
    eventually(lambda: place.look_up()[0] == 503, within=4, what="503")
    second.register(tp(0), tp(1))
    assert place.look_up()[0] == 503
    second.register(tp(2))
    second.is_served()


def test_02_the_next_launch_may_correct_the_page_size(place: Place, cluster: Cluster):
    first = Launch(place, cluster, tp=4, page_size=64)
    first.register(*HALF)
    first.die()
    eventually(lambda: left(place, 3), what="three ranks left")
    eventually(lambda: "(0 workers" in place.look_up()[1], what="nobody registered")
    second = Launch(place, cluster, tp=4, page_size=16)
    assert [status for status, _ in second.put(tp(3), *HALF)] == [200] * 4
    second.is_served()
    assert place.look_up()[1]["page_size"] == 16


def test_02b_at_once_it_is_told_no_and_its_next_try_succeeds(unswept: Place, cluster: Cluster):
    first = Launch(unswept, cluster, tp=4, page_size=64)
    first.register(*HALF)
    eventually(lambda: len(unswept.events("rank.probed")) >= 3, what="three ranks greeted")
    first.die()
    second = Launch(unswept, cluster, tp=4, page_size=16)
    status, why = second.put(tp(3))[0]
    assert (status, "page_size" in why, "64" in why, "16" in why) == (409, True, True, True)
    second.register()
    second.is_served()


def test_03_a_restart_in_which_one_rank_gets_its_old_port_is_promoted(place: Place, cluster: Cluster):
    first = Launch(place, cluster, tp=4)
    first.register()
    first.is_served()
    first.die()
    second = Launch(place, cluster, tp=4, ports={tp(2): first.ports[tp(2)]})
    second.register()
    second.is_served()
    assert second.ports[tp(2)] == first.ports[tp(2)]
    assert len(place.open_launches()) == 1


def test_04_more_dp_ranks_of_which_two_keep_their_addresses(place: Place, cluster: Cluster):
    first = Launch(place, cluster, dp=2)
    first.register()
    first.is_served()
    first.die()
    second = Launch(place, cluster, dp=4, ports=first.ports)
    second.register()
    second.is_served()
    assert place.look_up()[1]["dp_size"] == 4
    assert (second.ports[dp(0)], second.ports[dp(1)]) == (first.ports[dp(0)], first.ports[dp(1)])


def test_05_a_third_launch_may_reuse_an_address_of_the_first(place: Place, cluster: Cluster):
    first = Launch(place, cluster, tp=2)
    first.register()
    first.is_served()
    first.die()
    second = Launch(place, cluster, tp=2)
    second.register()
    second.is_served()
    second.die()
    third = Launch(place, cluster, tp=2, ports={tp(1): first.ports[tp(0)]})
    third.register()
    third.is_served()


def test_06_ranks_out_of_our_reach_complete_and_are_replaced_unchecked(place: Place):
    # TEST-NET-1: outside the networks that may be probed, as behind NAT.
    first = Launch(place, None, tp=2, host="192.0.2.1")
    first.register()
    first.is_served()
    second = Launch(place, None, tp=2, host="192.0.2.2")
    second.register()
    second.is_served()
    promoted = place.events("launch.promoted")[-1]
    assert (promoted["unchecked"], promoted["complete"]) == (True, True)
    turned = place.events("health.turned")
    assert [e["reason"] for e in turned if e["status"] == 503] == ["launch 1 was replaced"]


def test_09_a_long_restart_that_every_decode_saw_is_flushed_once(place: Place, cluster: Cluster):
    first, decode = Launch(place, cluster, tp=2), place.decode()
    first.register()
    first.is_served()
    assert decode.ask("GET", "/health")[0] == 200
    first.die()
    assert poll_until(decode, 503)[-1] == 503
    # The whole of the restart the decode goes on asking and hears the same.
    assert [decode.ask("GET", "/health")[0] for _ in range(3)] == [503] * 3
    second = Launch(place, cluster, tp=2)
    second.register()
    second.is_served()
    assert poll_until(decode, 200)
    time.sleep(0.6)
    assert [decode.ask("GET", "/health")[0] for _ in range(3)] == [200] * 3
    since = {e["since"] for e in place.events("health.turned") if e["status"] == 503}
    assert len(since) == 1


@pytest.mark.parametrize("where", ["never seen before", "of the launch just replaced"])
def test_13_a_put_that_comes_after_its_launch_leaves_no_candidate(place: Place, cluster: Cluster, where: str):
    lost = Launch(place, cluster, tp=2)
    if where == "of the launch just replaced":
        lost.register()
        lost.is_served()
    lost.die()
    newer = Launch(place, cluster, tp=2)
    newer.register()
    newer.is_served()
    assert lost.put(tp(0))[0] == (200, "OK")
    eventually(lambda: no_candidate(place), what="no candidate")
    assert newer.serves
    newer.die()
    newest = Launch(place, cluster, tp=2)
    newest.register()
    newest.is_served()


@pytest.mark.parametrize("end", ["it ends", "an operator supersedes"])
def test_14_new_pods_wait_until_the_old_ones_are_gone(place: Place, cluster: Cluster, end: str):
    old = Launch(place, cluster, tp=2, token="pod-1")
    old.register()
    old.is_served()
    new = Launch(place, cluster, tp=2, token="pod-2")
    new.register()
    time.sleep(1)
    assert old.serves
    assert place.health == 200
    if end == "it ends":
        old.die()
    else:
        done = manage("request", "supersede", place.name, "--reason", "rolling", env=place.bootstrap.env)
        assert done.returncode == 0, done.stdout + done.stderr
    new.is_served()
    assert len(place.open_launches()) == 1


def test_14b_one_living_rank_of_the_old_pods_keeps_a_claim_with_its_token_out(place: Place, cluster: Cluster):
    old = Launch(place, cluster, tp=2, token="pod-1")
    old.register()
    old.is_served()
    twin = Launch(place, cluster, tp=2, token="pod-1")
    assert [status for status, _ in twin.put()] == [200, 200]
    eventually(lambda: len(place.events("rank.claimed")) == 2, what="two claims")
    time.sleep(0.8)
    assert old.serves
    assert len(place.events("rank.claimed")) == 2
    old.die()
    twin.is_served()


def test_15_a_slow_decode_is_not_sent_to_the_new_launch_under_the_old_mapping(place: Place, cluster: Cluster):
    old, slow = Launch(place, cluster, tp=2), place.decode()
    old.register()
    old.is_served()
    assert slow.ask("GET", "/health")[0] == 200
    old.die()
    new = Launch(place, cluster, tp=2)
    new.register()
    eventually(lambda: place.events("launch.promoted"), what="the new launch promoted")
    # Complete and alive, but one decode still believes in the old mapping.
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert place.look_up(tp(1))[0] == 503
        assert place.look_up(ALL)[0] == 503
        time.sleep(0.1)
    assert slow.ask("GET", "/health")[0] == 503
    time.sleep(0.5)
    assert place.look_up(tp(1))[0] == 503
    assert slow.ask("GET", "/health")[0] == 503
    new.is_served()
    assert slow.ask("GET", "/health")[0] == 200


def test_16_a_switch_to_decode_and_back_is_a_restart(place: Place, cluster: Cluster):
    prefill, decode = Launch(place, cluster, tp=2), place.decode()
    prefill.register()
    prefill.is_served()
    decode.ask("GET", "/health")
    prefill.die()
    poll_until(decode, 503)
    # Now it decodes: nobody registers, and nobody may be sent to it.
    end = time.monotonic() + 1
    while time.monotonic() < end:
        assert place.look_up()[0] == 503
        assert decode.ask("GET", "/health")[0] == 503
        time.sleep(0.1)
    again = Launch(place, cluster, tp=2)
    again.register()
    poll_until(decode, 200)
    again.is_served()


def test_the_actors_tell_a_served_launch_from_another(place: Place, cluster: Cluster):
    launch = Launch(place, cluster, tp=2)
    assert not launch.serves
    launch.register()
    launch.is_served()
    launch.ports[Slot(0, 0, 0, 0)] = free_port()
    assert not launch.serves
