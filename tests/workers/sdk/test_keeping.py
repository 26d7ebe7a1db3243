"""What a keeper concludes, without a server."""

import pytest

from controlplane.domain.topology import Slot
from workers.sdk import BadRank, Rank, effective_dp
from workers.sdk.keeping import BEAT, Speaks, Standing, heard, is_plain, looked

A, B = Slot(0, 0, 0, 0), Slot(0, 0, 1, 0)
BOTH = Standing(frozenset(), frozenset({A, B}))
OWN = ("10.0.1.10:41000",)


def test_a_worker_is_registered_once_every_rank_was_acknowledged():
    standing = Standing(frozenset({A, B}), trouble="refused")
    assert not standing.is_registered
    standing = standing.took(A)
    assert not standing.is_registered and standing.registered == {A} and standing.trouble == ""
    assert standing.took(B).is_registered


def test_only_ranks_of_its_own_are_registered_again():
    told = BEAT.decode(b'{"directives":[{"do":"register","slots":[[0,0,1,0],[9,9,9,9]]}],"launch":4,"new":1}')
    after = heard(BOTH, told)
    assert (after.missing, after.registered, after.launch) == ({B}, {A}, 4)
    assert after.speaks is Speaks.CONTROL_PLANE


def test_draining_begins_and_ends_with_the_answers_and_unknown_directives_are_left_alone():
    draining = heard(BOTH, BEAT.decode(b'{"directives":[{"do":"drain"},{"do":"dance","how":1}]}'))
    assert draining.draining and draining.is_registered
    assert not heard(draining, BEAT.decode(b'{"directives":[]}')).draining


def test_sglang_s_own_server_is_known_by_how_it_says_404():
    assert is_plain(404, b"404: Not Found") and is_plain(405, b"")
    assert not is_plain(404, b"instance a is retired") and not is_plain(200, b"{}")


@pytest.mark.parametrize(
    ("status", "said", "address", "whole_once", "again"),
    [
        (200, "", "10.0.1.10:41000", False, False),
        # It counts calls: while it fills up, nobody can tell whether it forgot us.
        (503, "Prefill server not fully registered yet (1 workers registered).", "", False, False),
        (503, "Prefill server not fully registered yet (0 workers registered).", "", False, True),
        (503, "Prefill server not fully registered yet (1 workers registered).", "", True, True),
        (404, "Bootstrap info not found", "", True, True),
        (500, "", "", True, False),
    ],
)
def test_a_rank_registers_again_at_a_plain_server_only_when_it_was_surely_forgotten(
    status, said, address, whole_once, again
):
    standing = Standing(frozenset(), frozenset({A}), speaks=Speaks.SGLANG, whole_once=whole_once)
    assert (looked(standing, A, OWN, status, said, address).missing == {A}) is again


def test_a_server_that_restarted_forgot_all_ranks_of_a_process_and_one_that_counts_less_restarted():
    filling = "Prefill server not fully registered yet (%d workers registered)."
    whole = Standing(frozenset(), frozenset({A, B}), speaks=Speaks.SGLANG, whole_once=True)
    assert looked(whole, A, OWN, 503, filling % 1, "").missing == {A, B}
    never = Standing(frozenset(), frozenset({A, B}), speaks=Speaks.SGLANG)
    three = looked(never, A, OWN, 503, filling % 3, "")
    assert three.counted == 3 and three.is_registered
    assert looked(three, A, OWN, 503, filling % 3, "").is_registered
    again = looked(three, A, OWN, 503, filling % 2, "")
    assert again.missing == {A, B} and again.counted == 2


def test_another_rank_in_its_place_is_trouble_and_no_reason_to_fight():
    after = looked(BOTH, A, OWN, 200, "", "10.0.9.9:1")
    assert after.is_registered and "10.0.9.9:1, which is not this worker" in after.trouble


def test_a_rank_reports_the_dp_rank_that_counts():
    assert effective_dp(attn_dp_size=1, attn_dp_rank=0, system_dp_size=3, system_dp_rank=2) == (3, 2)
    rank = Rank(rank_ip="10.0.1.10", rank_port=41001, page_size=64, system_dp_size=2, system_dp_rank=1)
    assert rank.dp_rank == 1 and rank.topology.dp == 2
    attention = Rank(rank_ip="10.0.1.10", rank_port=41001, page_size=64, attn_dp_size=4, attn_dp_rank=3)
    assert attention.dp_rank == 3


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"rank_ip": ""}, "rank_ip"),
        ({"rank_ip": "None"}, "rank_ip"),
        ({"rank_port": 70000}, "rank_port"),
        ({"page_size": 0}, "page_size"),
        ({"attn_tp_rank": 1}, "tp rank 1 does not exist"),
        ({"attn_dp_rank": 2, "system_dp_size": 2}, "attn_dp_rank"),
    ],
)
def test_a_rank_that_no_directory_would_take_is_refused_at_home(wrong, named):
    with pytest.raises(BadRank, match=named):
        Rank(**{"rank_ip": "10.0.1.10", "rank_port": 41000, "page_size": 64, **wrong})
