"""What the page of one instance is read from: slots with those that left, older launches, the story of one rank."""

import time

import pytest

from controlplane.domain.cells import Cell
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.routable import Fact
from controlplane.domain.topology import Slot, Topology
from controlplane.queries import cells, closeup, fleet, rank_story
from tests.controlplane.queries.world import World

DP2_TP2 = Topology(2, 1, 2, 1)


@pytest.fixture
def world(on_backend) -> World:
    return World()


def look() -> closeup.CloseUp:
    return closeup.look("prefill-a", now=time.time())


def test_seats_hold_those_that_left_and_can_be_asked_for_one_by_one(world):
    ports = world.launch(DP2_TP2, first_port=4000)
    world.refuse(ports[0])
    seats = fleet.seats(world.row.pk, term=1)
    assert [(seat.slot, seat.left_at is None) for seat in seats] == [
        (slot, slot != Slot(0, 0, 0, 0)) for slot in DP2_TP2.slots()
    ]
    some = fleet.seats(world.row.pk, term=1, slots=(Slot(1, 0, 1, 0), Slot(0, 0, 0, 0), Slot(7, 0, 0, 0)))
    assert [seat.slot for seat in some] == [Slot(0, 0, 0, 0), Slot(1, 0, 1, 0)]


def test_every_slot_of_a_launch_is_counted_once(world):
    for place in range(2):
        world.put(Slot(0, 0, place, 0), DP2_TP2, port=4000 + place)
    world.probe(Contact.UP, 4000, 4001)
    (found,) = look().cells()
    assert found.counts() == {Cell.FILLING: 2, Cell.MISSING: 2}
    assert found.present == {Slot(0, 0, 0, 0), Slot(0, 0, 1, 0)}
    assert found[Slot(1, 0, 0, 0)].against == {Fact.REGISTRATION}


def test_some_slots_weigh_the_same_alone_as_among_all(world):
    ports = world.launch(DP2_TP2, first_port=4000)
    world.probe(Contact.STRANGER, ports[2])
    slot = Slot(1, 0, 0, 0)
    _, (alone,) = cells.of_instance("prefill-a", now=time.time(), slots=(slot,))
    (among,) = look().cells()
    assert alone[slot] == among[slot] and alone[slot].cell is Cell.STRANGER
    with pytest.raises(Refused, match="at most 512"):
        cells.of_instance("prefill-a", now=time.time(), slots=(slot,) * 513)


def test_launches_go_on_before_a_number(world):
    ports: list[int] = []
    for number in range(5):
        world.refuse(*ports)
        ports = world.launch(Topology(1, 1, 1, 1), first_port=4000 + number, token=f"t{number}")
    newest = fleet.launches(world.row.pk, limit=2)
    older = fleet.launches(world.row.pk, before=newest[-1].number, limit=2)
    assert [row.number for row in (*newest, *older)] == [5, 4, 3, 2]
    assert newest[0].registered == 1 and older[0].ended_reason == "all of its ranks left"
    assert fleet.launches(world.row.pk, before=1) == ()


def test_the_story_of_a_rank_has_its_own_events_only_and_the_age_of_each_fact(world):
    ports = world.launch(DP2_TP2, first_port=4000)
    world.now += 5
    world.probe(Contact.SILENT, ports[1])
    seen = look()
    told = rank_story.story(seen, seen.cells()[0], Slot(0, 0, 1, 0))
    assert [event.kind for event in told.events] == ["rank.probed", "rank.probed", "rank.registered"]
    assert {tuple(event.data["slot"]) for event in told.events} == {(0, 0, 1, 0)}
    registration, health, intent, breaker = told.facts
    assert (registration.word, registration.revision) == (Cell.REGISTERED, told.events[-1].revision)
    assert (health.word, health.no, health.since) == (Cell.SILENT, True, pytest.approx(world.now))
    assert (intent.word, intent.no) == (Cell.ENABLED, False)
    assert breaker.said[0].sentence.startswith("no gateway has joined")


def test_a_slot_that_a_launch_does_not_have_is_not_found(world):
    world.launch(DP2_TP2, first_port=4000)
    seen = look()
    with pytest.raises(Refused, match="it has no dp2 cp0 tp0 pp0") as refused:
        rank_story.story(seen, seen.cells()[0], Slot(2, 0, 0, 0))
    assert refused.value.code == "not_found"
