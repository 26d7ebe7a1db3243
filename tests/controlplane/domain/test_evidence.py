"""How far the way of a room is proven: each kind of trouble, the worst first, and never more than was observed."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain import evidence
from controlplane.domain.evidence import Displaced, Follower, Held, Knowledge, Standing, ladder

ROOM = 9
HERE = Held("p", 1, 100.0, True, 3, 4, False, "")


def test_what_nobody_saw_is_not_observed_and_never_passed():
    found = ladder(ROOM, [HERE])
    assert [rung.standing for rung in found.rungs] == [Standing.PASSED, *[Standing.NOT_OBSERVED] * 4]
    assert (found.proven, found.conclusion.kind) == (1, "stops")
    assert "Nobody has reported" in found.conclusion.sentence
    resolved = found.rungs[1]
    assert [claim.knowledge for claim in resolved.claims] == [Knowledge.INFERRED]
    assert resolved.claims[0].sentence == "a decode that asks p now is told dp1 and the ranks of launch 3"


def test_a_binding_says_who_bound_it_and_whether_the_modulo_agrees():
    sentences = [claim.sentence for claim in ladder(ROOM, [HERE]).rungs[0].claims]
    assert sentences == [
        "POST /register_dp_rank bound it to p dp1",
        "room mod 4 = 1: the same DP group as bound",
    ]
    other = [claim.sentence for claim in ladder(10, [HERE]).rungs[0].claims][1]
    assert other.startswith("room mod 4 = 2: other than dp1 as bound; this prefill does not follow the room")


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([replace(HERE, dp=5)], "p dp5 does not exist: launch 3 has 4 DP groups."),
        ([replace(HERE, displaced=(Displaced(0, 1, 90.0),))], "p bound it to dp1 while its binding to dp0 was alive"),
        ([HERE, replace(HERE, instance="q")], "It is bound in 2 instances at once, p dp1 and q dp1"),
        (
            [replace(HERE, dp=3, follows=True)],
            "p bound it to dp3, but says that it follows the room: a decode computes dp1",
        ),
        ([replace(HERE, because="p is retired")], "p dp1 holds it, and look-ups are not answered: p is retired."),
    ],
    ids=["no such group", "claimed twice", "in two instances", "against the modulo", "not answered"],
)
def test_each_trouble_is_said_with_what_to_do(held, said):
    end = ladder(ROOM, held).conclusion
    assert (end.kind, end.head) == ("trouble", "In doubt at registered.")
    assert end.sentence.startswith(said) and end.next.endswith(".")


def test_the_worst_trouble_is_said_first():
    worst = replace(HERE, dp=5, follows=True, displaced=(Displaced(0, 5, 90.0),), because="p is away")
    assert "does not exist" in ladder(ROOM, [worst, replace(HERE, instance="q")]).conclusion.sentence


def test_an_expired_binding_is_the_past_and_troubles_nobody():
    old = replace(HERE, live=False, dp=5, displaced=(Displaced(0, 5, 90.0),))
    found = ladder(ROOM, [old])
    assert (found.rungs[0].standing, found.conclusion.kind, found.proven) == (Standing.EXPIRED, "expired", 0)
    assert not any(claim.trouble for claim in found.rungs[0].claims)


def test_a_room_that_nobody_bound_may_still_be_computed():
    found = ladder(ROOM, [], [Follower("a", 4, ""), Follower("b", 2, "b is not serving")])
    assert found.conclusion.kind == "unbound" and "nobody has to" in found.conclusion.sentence
    assert [claim.sentence for claim in found.rungs[1].claims] == [
        "a decode of a computes room mod 4 = 1 and asks nobody",
        "a decode of b computes room mod 2 = 1 and asks nobody; b is not serving",
    ]
    assert found.proven == 0 and "was trimmed" in ladder(ROOM, []).conclusion.sentence


def test_examples_hold():
    assert doctest.testmod(evidence).failed == 0
