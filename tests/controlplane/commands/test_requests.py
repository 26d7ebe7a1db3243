"""Requests are stored with their event, or refused with nothing stored."""

import threading
import time

import pytest
from django.db import connections

from controlplane.commands import instances, requests
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.tail import head, latest
from controlplane.models import Request
from tests.controlplane.queries.world import World

WHO = {"actor": "anna", "reason": "a test"}
HERE, ELSEWHERE = Slot(0, 0, 1, 0), Slot(0, 0, 3, 0)


@pytest.fixture
def world(on_backend):
    made = World("prefill-a")
    made.launch(Topology(1, 1, 2, 1), first_port=4000)
    return made


def test_a_request_is_a_row_and_an_event_that_names_it(world):
    number = requests.make("evict", "prefill-a", HERE, **WHO)
    row = Request.objects.using(FACTS).get(pk=number)
    assert (row.kind, row.instance, row.slot, row.actor) == ("evict", "prefill-a", "0.0.1.0", "anna")
    event = latest(1)[0]
    assert (event.kind, event.instance, event.actor) == ("request.made", "prefill-a", "anna")
    assert event.data == {"request": number, "kind": "evict", "slot": [0, 0, 1, 0]}


REFUSALS = [
    (("evict", "ghost"), "no instance is named ghost"),
    (("evict", "prefill-a", ELSEWHERE), "dp0 cp0 tp3 pp0 is not registered in prefill-a"),
    (("readmit", "prefill-a", ELSEWHERE), "dp0 cp0 tp3 pp0 never registered in prefill-a"),
    (("supersede", "prefill-a", HERE), "supersede concerns a whole launch"),
    (("evict", "prefill-a", HERE, 7), "dp0 cp0 tp1 pp0 is not registered in launch 7 of prefill-a"),
    (("evict", "prefill-a", None, 7), "prefill-a has no launch 7 that is open"),
    (("readmit", "prefill-a", HERE, 1), "readmit concerns no one launch"),
    (("explode", "prefill-a"), "a request is one of evict, supersede, readmit, reregister"),
]


def test_what_does_not_exist_is_refused_and_nothing_is_stored(world):
    before = head()
    for asked, sentence in REFUSALS:
        with pytest.raises(Refused) as refusal:
            requests.make(*asked[:3], launch=asked[3] if asked[3:] else None, **WHO)
        assert sentence in refusal.value.sentence
    assert head() == before
    assert not Request.objects.using(FACTS).exists()


def test_a_rank_that_left_cannot_be_evicted_but_readmitted(world):
    world.refuse(4001)
    with pytest.raises(Refused, match="is not registered"):
        requests.make("evict", "prefill-a", HERE, **WHO)
    assert requests.make("readmit", "prefill-a", HERE, **WHO)


def test_a_retired_instance_can_be_emptied_and_nothing_else(world):
    instances.retire("prefill-a", **WHO)
    with pytest.raises(Refused, match="prefill-a is retired; add it again first"):
        requests.make("readmit", "prefill-a", **WHO)
    assert requests.make("evict", "prefill-a", **WHO)


def test_an_answer_is_waited_for_and_its_absence_ends_the_wait(world):
    number = requests.make("evict", "prefill-a", **WHO)
    begun = time.monotonic()
    assert requests.wait_for_answer(number, timeout=0.15) is None
    assert 0.1 < time.monotonic() - begun < 10

    def answer() -> None:
        time.sleep(0.2)
        row = Request.objects.using(FACTS).filter(pk=number)
        row.update(answered_at=time.time(), granted=False, answer="no")
        connections.close_all()

    helper = threading.Thread(target=answer)
    helper.start()
    assert requests.wait_for_answer(number, timeout=30) == requests.Answer(False, "no")
    helper.join()
