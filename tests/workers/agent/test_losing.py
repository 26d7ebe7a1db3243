"""A decode whose prefill is lost: what it tells, how soon it gives up, and how it knows that another launch is there."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controlplane.domain.topology import Topology
from workers.agent.asking import Failed, Request
from workers.agent.decode import Decode
from workers.agent.ranks import Place as At
from workers.agent.replaced import Replaced, other
from workers.agent.settings import Settings
from workers.agent.work import Desk
from workers.messaging import Endpoint
from workers.sdk import Place, Question, Resolved, Unreachable, WorkerError, read_decode
from workers.transfer import Failure, Poll, losing
from workers.transfer.receiving import Receiving

PLACE = Place("10.0.0.5", 8998)
PREFILL = Resolved(PLACE, "prefill-a", Topology(1, 1, 2, 1), True, (), "one", launch=3, token="t3")
GONE = losing.gone(1, Endpoint("10.0.1.7", 41001))


class Waiting:
    """The receiver of one rank, that nobody answers."""

    def __init__(self, state: Receiving) -> None:
        self.state = state

    def wait(self, timeout: float) -> Poll:
        if not self.state.is_over:
            time.sleep(max(0.0, timeout))
        return self.state.poll


def test_one_rank_that_is_lost_ends_the_room_while_others_still_wait_and_evidence_names_it():
    noted: list[tuple] = []
    invalidated: list[Resolved] = []
    decode = SimpleNamespace(
        settings=Settings(mode="decode", timeout=60.0),
        client=SimpleNamespace(invalidate=invalidated.append),
        telling=SimpleNamespace(note=lambda *said, detail="": noted.append((*said, detail))),
    )
    waits = Receiving(room=7, attempt="a", writers=frozenset({0}), answers_needed=1, deadline=time.monotonic() + 60)
    lost = replace(waits, poll=Poll.FAILED, failure=Failure.LOST, reason=GONE)
    receivers = {At(0, 0): Waiting(waits), At(1, 0): Waiting(lost)}
    began = time.monotonic()
    with Desk(1).work(Request((1,), 7, 1, PLACE, "", False)) as work, pytest.raises(Failed) as failed:
        Decode._verified(cast(Any, decode), work, PREFILL, cast(Any, receivers))
    assert time.monotonic() - began < 30
    assert failed.value.status == 503
    assert failed.value.sentence == f"the KV of room 7 did not come from prefill-a: {GONE}"
    assert noted == [(7, PREFILL, "verified", "lost", GONE)]
    assert invalidated == [PREFILL], "the next request asks anew who is there"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (PREFILL, ""),
        (replace(PREFILL, identity="two"), ""),
        (replace(PREFILL, launch=4, token="t4", identity="two"), "launch 4 is there now, not launch 3"),
        (replace(PREFILL, launch=None, token=None), ""),
        (replace(PREFILL, launch=None, token=None, identity="two"), "its ranks have other addresses now"),
    ],
)
def test_another_launch_is_one_with_another_number_or_where_nobody_counts_with_other_addresses(now, said):
    assert other(PREFILL, now) == said


def test_all_rooms_of_a_prefill_are_answered_by_one_question_and_who_cannot_be_asked_changes_nothing():
    asked: list[Place] = []
    answers: list[Resolved | WorkerError] = [
        Unreachable("10.0.0.5:8998", "the connection was refused"),
        replace(PREFILL, launch=4),
    ]

    def resolve(question: Question, *, place: Place, within: float) -> Resolved:
        asked.append(place)
        found = answers[len(asked) - 1]
        if isinstance(found, WorkerError):
            raise found
        return found

    client = SimpleNamespace(invalidate=lambda _: True, resolve=resolve)
    replaced = Replaced(cast(Any, client), Question(read_decode({"tp_size": 1})))
    replaced.fresh_seconds = 3600.0
    assert {replaced.why(PLACE, PREFILL) for _ in range(20)} == {""}
    assert asked == [PLACE]
    replaced.fresh_seconds = 0.0
    assert replaced.why(PLACE, PREFILL) == "launch 4 is there now, not launch 3"
    assert len(asked) == 2
