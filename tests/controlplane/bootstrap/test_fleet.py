"""Whom a request means that names nobody."""

from dataclasses import replace

import pytest

from controlplane.bootstrap.fleet import Ambiguous, Fleet, Instance
from controlplane.domain.engines import EngineTable
from controlplane.protocol.replies import OK

PUBLISHED = EngineTable(epochs={0: 1})


def named(fleet: Fleet, *, ranks: bool = True) -> str:
    try:
        one = fleet.only_one(ranks=ranks)
    except Ambiguous:
        return "several"
    return one.name if one else "nobody"


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(room_limit=100)


def add(fleet: Fleet, number: int, name: str, **more: object) -> Instance:
    one = Instance(number, name, **more)  # type: ignore[arg-type]
    fleet.add(one)
    return one


def change(fleet: Fleet, one: Instance, *, launches: int = 0, engines: EngineTable | None = None) -> None:
    """As after a commit."""
    directory = replace(one.directory, next_number=launches + 1)
    one.publish(directory, engines or one.engines)
    fleet.reconsider(one)


def test_of_two_that_share_a_listener_nobody_is_meant_whether_ranks_have_come_or_not(fleet):
    assert named(fleet) == "nobody"
    change(fleet, add(fleet, 1, "a"), launches=1)
    assert named(fleet) == "a"
    add(fleet, 2, "b")
    assert named(fleet) == "several"


def test_who_has_published_weights_and_never_had_a_rank_is_not_meant_by_those_who_ask_for_ranks(fleet):
    a = add(fleet, 1, "a")
    change(fleet, a, launches=1)
    s = add(fleet, 2, "s", publishes_only=True)
    assert named(fleet) == "a" and named(fleet, ranks=False) == "several"
    change(fleet, s, engines=PUBLISHED)
    assert named(fleet) == "a"
    # Its session has ended, and this process is another one.
    again = Fleet(room_limit=100)
    again.add_all([a, replace(s, publishes_only=False)])
    assert named(again) == "a"


def test_its_first_rank_ends_what_was_answered_to_those_who_name_nobody(fleet):
    a, s = add(fleet, 1, "a"), add(fleet, 2, "s", publishes_only=True)
    change(fleet, a, launches=1)
    change(fleet, s, engines=PUBLISHED)
    a.answers[b"asked"] = OK
    change(fleet, s, engines=EngineTable(epochs={0: 2}))
    assert a.answers, "more weights are no reason"
    change(fleet, s, launches=1)
    assert named(fleet) == "several" and not a.answers


def test_a_seed_is_no_prefill_before_it_has_published_anything(fleet):
    change(fleet, add(fleet, 1, "a"), launches=1)
    add(fleet, 2, "s", role="seed")
    assert named(fleet) == "a"


def test_one_alone_is_meant_whatever_it_has(fleet):
    s = add(fleet, 1, "s", publishes_only=True)
    change(fleet, s, engines=PUBLISHED)
    assert named(fleet) == named(fleet, ranks=False) == "s"
    change(fleet, add(fleet, 2, "t", publishes_only=True), engines=PUBLISHED)
    assert named(fleet) == "several"


def test_who_is_found_otherwise_is_never_meant(fleet):
    change(fleet, add(fleet, 1, "a"), launches=1)
    for number, more in enumerate(({"own_port": 9000}, {"role": "decode"}, {"intent": "retired"}), 2):
        other = add(fleet, number, f"o{number}", **more)
        change(fleet, other, engines=PUBLISHED)
        change(fleet, other, launches=1)
    assert named(fleet) == "a"
