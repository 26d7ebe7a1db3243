"""From what a router lists to what it shall hold."""

import pytest

from controlplane.domain.routers import PENDING_SECONDS, Held, Member, NotNow, Worker, decide

A = Worker("http://10.0.0.1:30000", "prefill", 8998)
D = Worker("http://10.0.0.2:30000", "decode")
IN = Member("a", present=True, worker_id="1", url=A.url, since=0.0)


def steps(desired, members, held, now=100.0):
    return decide(desired, members, held, now=now)


def test_what_is_wanted_and_missing_is_added_and_what_is_there_is_kept():
    found = steps({"a": A, "d": D}, [Member("d"), Member("a")], [Held("1", A)])
    assert found.additions == ("d",) and found.kept == (("a", Held("1", A)),) and not found.removals


def test_what_is_not_wanted_is_taken_out_with_the_reason():
    (removal,) = steps({"a": NotNow("a is cordoned by anna")}, [IN], [Held("1", A)]).removals
    assert (removal.instance, removal.held.id, removal.why) == ("a", "1", "a is cordoned by anna")
    assert steps({}, [IN], [Held("1", A)]).removals[0].why == "a is not known any more"
    off = Member("a", wanted=False, present=True, worker_id="1", url=A.url)
    assert steps({"a": A}, [off], [Held("1", A)]).removals[0].why == "a was taken off the list"


def test_a_cordoned_engine_that_others_put_in_is_taken_out_too():
    """We never told the router of it: only the instance's own URL says who it is."""
    found = steps({"a": NotNow("a is cordoned", A.url)}, [Member("a")], [Held("1", A)])
    assert [removal.instance for removal in found.removals] == ["a"]


def test_an_engine_that_is_another_instance_s_now_stays():
    """The old one was retired, and is still on the router's list of members."""
    found = steps({"a": NotNow("a is retired", A.url), "b": A}, [IN, Member("b")], [Held("1", A)])
    assert found.removals == () and found.kept == (("b", Held("1", A)),) and found.gone == (("a", "a is retired"),)


def test_whoever_belongs_to_nobody_here_stays():
    strange = Held("9", Worker("http://10.9.9.9:1", "decode"))
    found = steps({"a": NotNow("a is cordoned")}, [Member("a", url=A.url)], [strange])
    assert found.removals == () and found.kept == () and found.gone == ()


CHANGES = [
    (Worker(A.url, "prefill", 9000), "its bootstrap port is 8998 now, not 9000"),
    (Worker(A.url, "decode"), "it is a prefill now, not a decode"),
    (Worker("http://10.0.0.7:30000", "prefill", 8998), "its URL is http://10.0.0.1:30000 now"),
]


@pytest.mark.parametrize(("there", "why"), CHANGES)
def test_what_changed_is_taken_out_and_added_again(there, why):
    member = Member("a", present=True, worker_id="1", url=there.url)
    found = steps({"a": A}, [member], [Held("1", there)])
    assert [removal.why for removal in found.removals] == [why] and found.additions == ("a",)


def test_who_is_held_twice_is_taken_out_twice_and_added_once():
    found = steps({"a": A}, [IN], [Held("1", A), Held("2", A)])
    assert [removal.held.id for removal in found.removals] == ["1", "2"] and found.additions == ("a",)


def test_an_empty_list_is_a_router_that_restarted_only_if_it_held_somebody():
    found = steps({"a": A}, [IN], [])
    assert found.restarted and found.gone == (("a", "the router restarted"),) and found.additions == ("a",)
    assert not steps({"a": A}, [Member("a")], []).restarted
    one_of_two = steps({"a": A, "d": D}, [IN, Member("d")], [Held("2", D)])
    assert not one_of_two.restarted and one_of_two.gone == (("a", "the router does not list it any more"),)


def test_who_was_sent_a_moment_ago_is_neither_sent_again_nor_given_up():
    sent = Member("a", present=True, url=A.url, since=100.0)
    for desired in ({"a": A}, {"a": NotNow("a is cordoned")}):
        waiting = steps(desired, [sent], [], now=100.0 + PENDING_SECONDS)
        assert (waiting.additions, waiting.gone, waiting.removals) == ((), (), ())
    late = 100.1 + PENDING_SECONDS
    assert steps({"a": A}, [sent], [], now=late).additions == ("a",)
    assert steps({"a": NotNow("a is cordoned")}, [sent], [], now=late).gone == (("a", "a is cordoned"),)
    # It appeared, and was cordoned meanwhile.
    assert steps({"a": NotNow("a is cordoned")}, [sent], [Held("1", A)], now=100.0).removals


def test_who_was_sent_later_than_now_is_not_waited_for_until_the_clock_has_caught_up():
    sent = Member("a", present=True, url=A.url, since=3700.0)
    assert steps({"a": A}, [sent], [], now=100.0).additions == ("a",)
