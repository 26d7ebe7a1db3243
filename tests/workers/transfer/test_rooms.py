"""A room at each side, as values."""

import itertools
import random
from dataclasses import replace

import pytest

from workers.messaging.endpoint import Endpoint
from workers.messaging.replies import AbortAck, Poll, Status
from workers.messaging.requests import Abort, KvRequest
from workers.transfer import receiving, sending
from workers.transfer.metadata import RoomCheck, check_room
from workers.transfer.receiving import Failure, Receiving
from workers.transfer.sending import Sending

HERE = Endpoint("10.0.0.1", 5)


def receiving_of(*writers: int) -> Receiving:
    ranks = frozenset(writers)
    return Receiving(room=7, attempt="a", writers=ranks, answers_needed=len(ranks), deadline=10.0)


def received(*writers: int, room: int = 7) -> Receiving:
    return receiving.publish(replace(receiving_of(*writers or (0, 1)), room=room))


def success(rank: int, attempt: str = "a") -> Status:
    return Status(room=7, poll=Poll.SUCCESS, prefill_rank=rank, attempt=attempt)


def failed(rank: int, attempt: str = "a", reason: str = "no memory") -> Status:
    return Status(room=7, poll=Poll.FAILED, prefill_rank=rank, attempt=attempt, reason=reason)


def test_a_room_succeeds_when_all_have_answered_and_the_metadata_is_of_this_room():
    state = receiving.hear(received(), success(0))
    assert receiving.conclude(state, RoomCheck.SAME, shown=7) is state, "one of two has answered"
    state = receiving.hear(receiving.hear(state, success(0)), success(1))
    assert receiving.conclude(state, RoomCheck.SAME, shown=7).poll is Poll.SUCCESS
    assert receiving.conclude(state, RoomCheck.NOT_WRITTEN, shown=0).poll is Poll.TRANSFERRING
    other = receiving.conclude(state, RoomCheck.OTHER, shown=8)
    assert (other.poll, other.failure) == (Poll.FAILED, Failure.OTHER_ROOM)
    assert "of room 8, not of 7" in other.reason
    assert receiving.conclude(state, RoomCheck.SAME, shown=7, damaged="page 3").failure is Failure.DAMAGED


def test_room_0_can_be_refuted_and_never_waits_for_a_proof_that_cannot_come():
    state = receiving.hear(received(0, room=0), success(0))
    assert receiving.conclude(state, check_room(0, 0), shown=0).poll is Poll.SUCCESS
    assert receiving.conclude(state, check_room(9, 0), shown=9).failure is Failure.OTHER_ROOM


def test_the_first_failure_stays_and_nothing_brings_a_failed_room_back():
    state = receiving.hear(received(), failed(1))
    assert state.reason == "prefill rank 1 failed: no memory"
    for late in (success(0), success(1), failed(0, reason="other")):
        state = receiving.hear(state, late)
    state = receiving.expire(receiving.conclude(state, RoomCheck.SAME, shown=7), now=99.0)
    assert (state.poll, state.failure) == (Poll.FAILED, Failure.PREFILL_FAILED)
    assert state.reason == "prefill rank 1 failed: no memory"


def test_word_of_another_attempt_changes_nothing_and_word_without_one_is_sglangs():
    state = received()
    assert receiving.hear(state, failed(0, attempt="before")) is state
    assert receiving.hear(state, success(0, attempt="before")) is state
    assert receiving.hear(state, failed(0, attempt="")).poll is Poll.FAILED


@pytest.mark.parametrize("poll", [Poll.BOOTSTRAPPING, Poll.WAITING_FOR_INPUT, Poll.TRANSFERRING])
def test_a_status_that_is_no_end_changes_nothing(poll):
    state = received()
    assert receiving.hear(state, Status(room=7, poll=poll, prefill_rank=0)) is state


def test_pages_are_settled_when_every_rank_has_finished_or_acknowledged_this_abort():
    assert receiving_of(0, 1).is_settled, "nobody was told of the pages"
    state = receiving.give_up(receiving.hear(received(), success(0)), 5)
    assert not state.is_settled
    for ack in (AbortAck(room=7, prefill_rank=1), AbortAck(room=7, prefill_rank=1, generation=4)):
        assert receiving.acknowledge(state, ack) is state
    assert receiving.acknowledge(state, AbortAck(room=7, prefill_rank=1, generation=5)).is_settled
    assert not receiving.acknowledge(state, AbortAck(room=7, prefill_rank=0, generation=5)).is_settled
    # A failure by itself proves nothing: the rank may have failed because it does not know how its write ended.
    assert not receiving.hear(received(0), failed(0)).is_settled


def test_a_rank_that_was_asked_as_a_dummy_speaks_for_none_that_still_writes():
    """MLA, prefill TP 2 and decode TP 1: rank 0 sends, rank 1 was only told of the room."""
    state = receiving.give_up(received(0), 5)
    dummy = AbortAck(room=7, prefill_rank=1, generation=5)
    assert not receiving.acknowledge(state, dummy).is_settled
    assert receiving.acknowledge(state, AbortAck(room=7, prefill_rank=0, generation=5)).is_settled
    assert not receiving.hear(received(0), success(1)).has_all_answers


def test_a_room_that_was_never_written_fails_at_its_deadline_and_says_so():
    state = receiving.hear(received(0), success(0))
    assert receiving.expire(state, now=9.9) is state
    assert "never written" in receiving.expire(state, now=10.0).reason


def asked(session: str, needed: int = 2, *, dummy: bool = False) -> KvRequest:
    return KvRequest(room=7, endpoint=HERE, session=session, required_dst_info_num=needed, is_dummy=dummy)


def test_a_prefill_may_send_when_as_many_decode_ranks_as_needed_have_asked():
    state = sending.ask(Sending(room=7, deadline=9.0), asked("d:1"))
    assert state.poll is Poll.BOOTSTRAPPING
    assert sending.ask(state, asked("d:1")).poll is Poll.BOOTSTRAPPING, "the same rank twice is one"
    state = sending.ask(state, asked("d:2", dummy=True))
    assert state.poll is Poll.WAITING_FOR_INPUT
    assert [request.session for request in state.targets] == ["d:1"]


def test_a_room_expires_when_nobody_asked_or_nothing_was_handed_over_and_never_under_a_running_batch():
    state = Sending(room=7, deadline=9.0)
    assert "0 of 1 decode ranks asked" in sending.expire(state, now=9.0).reason
    assert "1 of 2" in sending.expire(sending.ask(state, asked("d:1")), now=9.0).reason
    ready = sending.ask(state, asked("d:1", 1))
    assert "its last pages" in sending.expire(ready, now=9.0).reason
    busy = sending.begin(ready, 3)
    assert (busy.sent, sending.expire(busy, now=99.0)) == (3, busy)
    assert sending.expire(sending.succeed(sending.end(busy)), now=99.0).poll is Poll.SUCCESS


def test_an_abort_ends_the_room_and_one_without_a_generation_gets_no_answer():
    state = sending.abort(sending.ask(Sending(room=7, deadline=9.0), asked("d:1", 1)), Abort(room=7, endpoint=HERE))
    assert (state.poll, state.waiting) == (Poll.FAILED, {})
    assert sending.succeed(state) is state
    assert sending.ask(state, asked("d:2")) is state


def test_no_abort_is_acknowledged_while_a_batch_runs_or_after_one_ended_in_doubt():
    """Every order of a small set of happenings, against the one rule that matters."""
    rng = random.Random(7)
    happenings = ["begin", "begin", "end", "doubt", "abort 1", "abort 2", "abort 1"]
    for order in itertools.islice(iter(lambda: rng.sample(happenings, 7), None), 2000):
        state, running, doubt, told = Sending(room=7, deadline=9.0), 0, False, []
        for what in order:
            if what == "begin":
                state, running = sending.begin(state, 1), running + 1
            elif what in ("end", "doubt") and running:
                state, running, doubt = sending.end(state, settled=what == "end"), running - 1, doubt or what == "doubt"
            elif what.startswith("abort"):
                state = sending.abort(state, Abort(room=7, endpoint=HERE, generation=int(what[-1])))
            state, acks = sending.acks(state, 3)
            assert not acks or (not running and not doubt)
            told += [ack.generation for _, ack in acks]
        assert told or running or doubt, "an abort waits for an answer that could be given"
