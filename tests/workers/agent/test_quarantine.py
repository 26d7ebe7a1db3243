"""An agent whose pages are in quarantine, since a peer died under their rooms, serves again, and loses none by a refusal."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from workers.agent.asking import Failed, Request
from workers.agent.groups import DpGroup, Pages
from workers.agent.prefill import Prefill
from workers.agent.ranks import Place as At
from workers.agent.settings import Settings
from workers.agent.work import Desk
from workers.messaging import Endpoint, read_request
from workers.messaging.inbox import Inbox
from workers.transfer import DecodeSide, NothingFree, Place, PrefillSide, Source

PAGES = 8


def group_of(kind):
    made = DpGroup(Settings(mode="decode", backend="zmq", pages=PAGES), 0, kind)
    yield made
    made.close()


@pytest.fixture
def decode():
    yield from group_of(DecodeSide)


@pytest.fixture
def prefill():
    yield from group_of(PrefillSide)


@pytest.fixture
def deaf():
    """A prefill rank that takes a request, and never says that it gave it up."""
    inbox = Inbox("127.0.0.1", 0, read_request)
    yield inbox.endpoint
    inbox.close()


def lose(group: DpGroup[DecodeSide], to: Endpoint, count: int, *, first: int = 1) -> None:
    """One room of one page for each of `count`, whose end is never known."""
    side = group.ranks[At(0, 0)].side
    for room in range(first, first + count):
        side.open(room, [Source(to, Place())], side.pages.take(1)).close()
    assert side.pages.held == count


def test_pages_that_nobody_gives_back_are_taken_back_when_they_are_needed_and_nobody_uses_the_engine(decode, deaf):
    side = decode.ranks[At(0, 0)].side
    lose(decode, deaf, 2)
    before = side.engine.session
    pages = decode.taking(lambda: Pages(decode, PAGES))
    assert (side.pages.taken, side.pages.held) == (PAGES, 0)
    assert side.engine.session != before, "what writes there writes into nothing"
    pages.close()
    assert side.pages.free == PAGES


def test_rooms_under_way_are_given_up_for_them_only_when_half_of_all_is_in_quarantine(decode, deaf):
    side = decode.ranks[At(0, 0)].side
    used = decode.taking(lambda: Pages(decode, 1))
    lose(decode, deaf, 3)
    before = side.engine.session
    with pytest.raises(NothingFree, match="3 are in quarantine"):
        decode.taking(lambda: Pages(decode, 5))
    assert side.engine.session == before
    side.open(9, [Source(deaf, Place())], side.pages.take(1)).close()
    decode.taking(lambda: Pages(decode, 7)).close()
    assert side.engine.session != before
    used.close()
    assert side.pages.free == PAGES


def test_what_is_not_in_quarantine_is_refused_at_once(decode):
    side = decode.ranks[At(0, 0)].side
    before = side.engine.session
    with pytest.raises(NothingFree):
        decode.taking(lambda: Pages(decode, PAGES + 1))
    assert (side.engine.session, side.pages.free) == (before, PAGES)


def test_a_prefill_without_a_metadata_slot_refuses_the_request_and_keeps_none_of_its_pages(prefill, decode):
    giving, taking = prefill.ranks[At(0, 0)].side, decode.ranks[At(0, 0)].side
    slots = giving.slots.take(giving.slots.size)
    agent: Any = SimpleNamespace(settings=Settings(mode="prefill", timeout=30.0), _note=lambda *said, **more: None)
    agent._check = partial(Prefill._check, agent)
    receiver = taking.open(7, [Source(giving.endpoint, Place())], taking.pages.take(1), timeout=60)
    with Desk(1).work(Request((1, 2), 7, 1, None, "", False)) as work, pytest.raises(Failed, match="metadata slots"):
        Prefill._hand_over(agent, prefill, work)
    receiver.close()
    giving.slots.give_back(slots)
    assert (giving.pages.free, giving.pages.taken) == (PAGES, 0)
