"""A PUT that came late was answered OK: until its address was asked once more, it outlives a restart of ours."""

import time

import pytest

from controlplane.domain.contact import Contact
from tests.controlplane.domain.keeper import Keeper
from tests.controlplane.domain.scene import registration

HERE = "10.0.0.1"


@pytest.fixture
def keeper(_migrated):
    made = Keeper()
    yield made
    made.forget()


def replaced(keeper: Keeper, now: float) -> float:
    """Launch 1, on ports 1 and 2, was replaced by launch 2, on ports 3 and 4; nobody listens on the former now."""
    keeper.put_many([registration("tp0@1", []), registration("tp1@2", [])], now)
    keeper.observe({(HERE, 1): Contact.UNREACHED, (HERE, 2): Contact.UNREACHED}, now)
    keeper.put_many([registration("tp0@3", []), registration("tp1@4", [])], now + 1)
    gone = {(HERE, 1): Contact.UNREACHED, (HERE, 2): Contact.UNREACHED}
    keeper.observe({**gone, (HERE, 3): Contact.UP, (HERE, 4): Contact.UP}, now + 1.1)
    assert "launch.promoted" in keeper.kinds
    keeper.observe({(HERE, 1): Contact.REFUSED, (HERE, 2): Contact.REFUSED}, now + 2)
    return now + 3


def test_it_registers_when_its_address_answers_after_the_restart(keeper):
    now = replaced(keeper, time.time())
    assert keeper.put(registration("tp0@1", []), now) is None
    assert keeper.kinds[-1] == "rank.came_late" and keeper.directory.candidate is None
    keeper.restart()
    assert (HERE, 1) in keeper.directory.watched(now)
    keeper.observe({(HERE, 1): Contact.UP}, now + 0.5)
    assert keeper.directory.candidate is not None and (HERE, 1) in keeper.directory.candidate.at
    keeper.restart()
    assert keeper.directory.fence is None, "it is asked about once"


def test_long_after_the_promotion_whoever_answers_there_is_somebody_else(keeper):
    now = replaced(keeper, time.time() - 400)
    assert keeper.put(registration("tp0@1", []), now) is None
    keeper.restart()
    assert keeper.directory.fence is None
