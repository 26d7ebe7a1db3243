"""Deaths and restarts, seen by real decode ranks."""

import pytest

from tests.detection.trouble import Slow
from tests.support.ports import free_port


def test_the_real_heartbeat_keeps_a_living_server_and_drops_a_dead_one(target, sglang):
    target.start()
    facts = sglang.open("heartbeat", port=target.kv_port)
    assert facts["still_cached"]
    assert facts["beats"] >= 5
    target.stop()
    facts = sglang.go_on()
    assert facts["dropped_after"] is not None
    assert facts["room_failed"]
    assert "Lost connection with prefill instance" in facts["reason"]


@pytest.mark.parametrize("pause", [0, 3], ids=["at once", "after 3 s"])
def test_new_ports_of_a_restarted_prefill_reach_a_decode_through_health_alone(ours, sglang, pause):
    ours.start()
    facts = sglang.open("restarted_prefill", port=ours.kv_port, patience=30, pause=pause)
    old, new = facts["old"], facts["new"]
    assert facts["before"] == old, "the cache was not filled"
    assert facts["seen"][-1][1] == new, facts["seen"]
    assert_never_mixed(facts)


def assert_never_mixed(facts):
    """On the way every request goes to the old launch, to the new one, or fails; never to anything else."""
    for _, ports in facts["seen"]:
        for rank, got in enumerate(ports):
            assert got in (None, facts["old"][rank], facts["new"][rank])
    assert facts["rooms_in_flight_failed"] == [True, True]
    assert facts["undisturbed_afterwards"] == [True, True]
    assert all(count >= 1 for count in facts["frames_at_new_ranks"].values())


@pytest.fixture
def two_others(sglang):
    """Two more prefills' own servers, each behind something that can make it hang."""
    ports = [(free_port(), free_port()) for _ in range(2)]
    for kv_port, engine_port in ports:
        sglang.serve(kv_port, engine_port)
    others = [Slow(kv_port) for kv_port, _ in ports]
    yield others
    for other in others:
        other.close()
    for kv_port, _ in ports:
        sglang.close(kv_port)


def test_new_ports_reach_a_decode_whose_heartbeat_waits_for_two_other_prefills_that_hang(ours, sglang, two_others):
    ours.start()
    facts = sglang.open(
        "restarted_beside_hanging", port=ours.kv_port, others=[other.port for other in two_others], patience=60
    )
    assert facts["cached"] == [3, 3]
    for other in two_others:
        other.delay = 600.0
    facts = sglang.go_on()
    assert facts["before"] == facts["old"], "the cache was not filled"
    assert facts["seen"][-1][1] == facts["new"], facts["seen"]
    assert_never_mixed(facts)


def test_the_original_leaves_a_decode_at_the_dead_ports_for_ever(sglang, sglang_servers):
    # Its /health is constant. Were this ever mended, the test above would prove nothing of ours.
    sglang_servers.start()
    facts = sglang.open("restarted_prefill", port=sglang_servers.kv_port, patience=2, pause=0)
    assert facts["seen"][-1][1] == facts["old"]


def test_a_killed_directory_has_forgotten_nothing(ours, sglang):
    ours.start()
    assert sglang.open("restarted_directory", port=ours.kv_port) == {"registered": 4}
    ours.ours.restart()
    facts = sglang.go_on()
    assert facts["ready"]
    assert facts["room_in_flight_survived"], "the restart cost a real decode two heartbeats"
    assert facts["fresh"] == facts["wanted"]
    assert facts["cached"] == facts["wanted"]
    assert facts["room"] == {"77": 1}
