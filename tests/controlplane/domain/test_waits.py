"""Who asked and was not answered is followed until they are, each once, and never more of them than there is room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.waits import GRACE_SECONDS, Waits


def waits(limit: int = 100, patience: float = 60.0) -> Waits:
    return Waits(limit=limit, patience=patience)


def test_a_wait_counts_from_the_first_question_and_is_told_once():
    one = waits()
    one.missed("p", [1, 2], 100.0)
    one.missed("p", [1], 105.0)
    assert one.answered("p", {1, 2, 3}, 107.0) == [7.0, 7.0]
    assert one.answered("p", {1, 2, 3}, 108.0) == [] and one.count == 0 and "p" not in one


def test_who_was_answered_at_once_has_not_waited():
    one = waits()
    assert one.answered("p", {1}, 100.0) == [] and one.count == 0


def test_the_same_room_of_two_instances_is_two():
    one = waits()
    one.missed("p", [7], 100.0)
    one.missed("q", [7], 102.0)
    assert one.answered("q", {7}, 103.0) == [1.0]
    assert one.answered("p", {7}, 103.0) == [3.0]


def test_whoever_is_not_answered_in_time_is_let_go_and_counted():
    one = waits(patience=60.0)
    one.missed("p", [1], 100.0)
    one.missed("p", [2], 150.0)
    assert one.give_up(159.9) == 0
    assert one.give_up(160.0) == 1 and (one.count, one.given_up) == (1, 1)
    assert one.answered("p", {1, 2}, 161.0) == [11.0]


def test_past_the_limit_newcomers_are_not_followed_and_the_oldest_make_room_when_their_time_is_over():
    one = waits(limit=2, patience=60.0)
    one.missed("p", [1, 2, 3], 100.0)
    assert (one.count, one.given_up) == (2, 1)
    one.missed("q", [4], 170.0)
    assert (one.count, one.given_up) == (1, 3) and one.answered("q", {4}, 171.0) == [1.0]


def test_when_all_places_are_taken_a_question_does_not_look_through_all_of_them_for_each_of_its_keys():
    looked: list[float] = []

    class Counting(Waits):
        __slots__ = ()

        def give_up(self, now: float) -> int:
            looked.append(now)
            return super().give_up(now)

    one = Counting(limit=500, patience=60.0)
    for group in range(500):
        one.missed(group, [0], 100.0)
    one.missed(0, range(1, 1000), 110.0)
    one.missed(1, range(1, 1000), 110.5)
    assert looked == [110.0] and (one.count, one.given_up) == (500, 999 * 2)
    one.missed(0, [1], 160.0)
    assert looked == [110.0, 160.0] and one.count == 1


def test_once_one_of_a_group_is_answered_the_others_are_waited_for_only_a_little_longer():
    one = waits()
    one.missed("p", ["host-a", "host-b"], 100.0)
    assert one.answered("p", {"host-a"}, 101.0, together=True) == [1.0]
    assert one.answered("p", {"host-c"}, 101.0 + GRACE_SECONDS - 0.1, together=True) == [] and "p" in one
    assert one.answered("p", {"host-c"}, 101.0 + GRACE_SECONDS, together=True) == []
    assert "p" not in one and one.given_up == 1
    one.missed("p", ["host-a", "host-b"], 200.0)
    one.answered("p", {"host-a"}, 201.0, together=True)
    one.missed("p", ["host-b"], 202.0)
    assert one.answered("p", {"host-b"}, 230.0, together=True) == [30.0], "it was taken back meanwhile"


steps = st.lists(
    st.tuples(
        st.sampled_from(["missed", "answered", "give_up", "forget"]), st.sampled_from("pq"), st.sets(st.integers(0, 6))
    ),
    max_size=60,
)


@given(steps, st.integers(1, 5))
def test_whatever_happens_the_count_is_right_and_within_the_limit(happened, limit):
    one, now = waits(limit=limit, patience=5.0), 0.0
    for what, group, keys in happened:
        now += 1.0
        if what == "missed":
            one.missed(group, keys, now)
        elif what == "answered":
            took = one.answered(group, keys, now, together=len(keys) % 2 == 0)
            assert all(0 < seconds <= now for seconds in took)
        elif what == "give_up":
            one.give_up(now)
        else:
            one.forget(group)
        held = {group: len(since) for group, since in one._since.items()}
        assert one.count == sum(held.values()) <= limit and all(held.values())
        assert one._ends_at.keys() <= one._since.keys()
