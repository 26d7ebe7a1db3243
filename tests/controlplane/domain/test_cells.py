"""One word for a slot: what is worst is said first, and a word of one fact says nothing of another."""

import doctest

import pytest

from controlplane.domain import cells, reach
from controlplane.domain.cells import EMPTY, Around, Cell, Seat, against, verdict
from controlplane.domain.contact import Contact
from controlplane.domain.routable import Fact

UP = Seat(True, Contact.UP)
SEATED = Around()


def test_examples_hold():
    assert doctest.testmod(cells).failed == 0
    assert doctest.testmod(reach).failed == 0


@pytest.mark.parametrize(
    ("seat", "around", "word"),
    [
        (UP, SEATED, Cell.ROUTABLE),
        (EMPTY, SEATED, Cell.MISSING),
        (Seat(False, Contact.REFUSED), SEATED, Cell.DOWN),
        (Seat(False, Contact.UP), SEATED, Cell.LEFT),
        (Seat(True, Contact.REFUSED), SEATED, Cell.REFUSED),
        (Seat(True, Contact.SILENT), Around(intent="cordoned"), Cell.SILENT),
        (Seat(True, Contact.STRANGER), Around(candidate=True), Cell.STRANGER),
        (UP, Around(candidate=True), Cell.CANDIDATE),
        (UP, Around(intent="cordoned", routable=False), Cell.CORDONED),
        (UP, Around(intent="draining", breaker="open"), Cell.DRAINING),
        (UP, Around(intent="drained"), Cell.DRAINED),
        (UP, Around(intent="retired"), Cell.RETIRED),
        (UP, Around(breaker="open", routable=False), Cell.OPEN),
        (UP, Around(breaker="open_somewhere"), Cell.ROUTABLE),
        (Seat(True, Contact.UNREACHED), SEATED, Cell.UNREACHED),
        (Seat(True, Contact.UNPROBED), SEATED, Cell.UNPROBED),
        (Seat(True, Contact.UP, probeable=False), SEATED, Cell.UNPROBED),
        (Seat(True, Contact.UP, verified=False), SEATED, Cell.UNVERIFIED),
        (UP, Around(complete=False, routable=False), Cell.FILLING),
        (UP, Around(routable=False), Cell.UP),
    ],
)
def test_the_worst_that_holds_is_the_word(seat, around, word):
    assert verdict(seat, around) is word


def test_each_fact_has_a_word_of_its_own():
    seat, around = Seat(True, Contact.SILENT), Around(intent="draining", breaker="half_open")
    words = {name: show(seat, around) for name, show in cells.SHOWS.items()}
    assert words == {
        "verdict": Cell.SILENT,
        "registration": Cell.REGISTERED,
        "health": Cell.SILENT,
        "intent": Cell.DRAINING,
        "breaker": Cell.HALF_OPEN,
    }
    assert against(seat, around) == {Fact.HEALTH, Fact.INTENT, Fact.BREAKER}


def test_whoever_is_not_there_is_so_in_registration_and_health():
    gone = Seat(False, Contact.REFUSED)
    assert cells.registration(gone, SEATED) is cells.health(gone, SEATED) is Cell.DOWN
    assert against(gone, SEATED) == {Fact.REGISTRATION, Fact.HEALTH}


def test_every_fact_can_be_shown():
    assert {str(fact) for fact in Fact} < cells.SHOWS.keys()
