"""Rooms that end before their KV is whole: nobody waits for what cannot come, and nobody reads what was never written."""

import threading
import time
from dataclasses import replace

import pytest

from tests.support.ports import free_port
from tests.workers.transfer.faults import silent_port
from tests.workers.transfer.ranks import Rank, rank
from tests.workers.transfer.test_sides import DTYPE, PAGES, SHAPE, all_free, ask, until
from workers.messaging.endpoint import Endpoint
from workers.messaging.replies import Poll
from workers.transfer import sender as sender_module
from workers.transfer import sending
from workers.transfer.decode import DecodeSide
from workers.transfer.errors import TransferError
from workers.transfer.layout import Place
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Source
from workers.transfer.receiving import Failure
from workers.transfer.sending import REMEMBERED_SECONDS

Prefill, Decode = Rank[PrefillSide], Rank[DecodeSide]


@pytest.fixture
def prefill():
    made = rank(PrefillSide, SHAPE, Place(), DTYPE, "zmq")
    yield made
    made.close()


@pytest.fixture
def decode():
    made = rank(DecodeSide, SHAPE, Place(), DTYPE, "zmq", slots=64)
    yield made
    made.close()


@pytest.fixture
def dummy():
    """The other prefill rank of an MLA model, which a decode of TP 1 only tells of its room."""
    made = rank(PrefillSide, SHAPE, Place(tp_rank=1, tp_size=2), DTYPE, "zmq")
    yield made
    made.close()


def test_a_page_is_not_used_again_while_a_rank_writes_into_it_though_a_dummy_has_acknowledged(
    prefill: Prefill, dummy: Prefill, decode: Decode, monkeypatch
):
    begun, go_on = threading.Event(), threading.Event()
    write = prefill.engine.write

    def slow(*args, **more):
        begun.set()
        assert go_on.wait(60)
        write(*args, **more)

    monkeypatch.setattr(prefill.engine, "write", slow)
    sources = [
        Source(prefill.side.endpoint, Place()),
        Source(dummy.side.endpoint, dummy.pool.share.place, is_dummy=True),
    ]
    receiver = decode.side.open(7, sources, decode.side.pages.take(PAGES), answers_needed=1, timeout=60)
    sender = prefill.side.open(7)
    assert sender.wait_until_asked(30) is Poll.WAITING_FOR_INPUT
    sender.finish(prefill.side.pages.take(PAGES))
    assert begun.wait(30)
    receiver.abort("the client went away")
    until(lambda: receiver.state.acknowledged == {1}, "the dummy has acknowledged")
    assert not receiver.close().settled
    assert decode.side.pages.held == PAGES
    go_on.set()
    until(lambda: all_free(decode), "the rank that wrote has acknowledged too")
    sender.close()


def test_of_a_room_that_only_some_ranks_were_told_of_the_pages_wait_for_those_alone(prefill, dummy, decode):
    gone = Endpoint("127.0.0.1", free_port())
    sources = [Source(prefill.side.endpoint, Place(tp_size=2)), Source(gone, dummy.pool.share.place)]
    receiver = decode.side.open(7, sources, decode.side.pages.take(PAGES), timeout=300)
    outcome = receiver.close()
    assert outcome.failure is Failure.UNREACHABLE and f"{gone} cannot be reached" in outcome.reason
    until(lambda: all_free(decode), "the rank that was told has acknowledged")


def test_a_prefill_that_takes_nothing_keeps_no_page_of_the_decode_and_holds_up_no_room_of_another(
    prefill, dummy, decode
):
    """40 requests for a host that drops what is sent to it, and one for another."""
    both = [Place(tp_rank=rank, tp_size=2) for rank in range(2)]
    with silent_port() as one, silent_port() as other:
        silent = [Source(Endpoint("127.0.0.1", port), at) for port, at in zip((one, other), both, strict=True)]
        outcomes: list[Failure | None] = []

        def ask_silent(room: int) -> None:
            receiver = decode.side.open(room, silent, (), timeout=300)
            outcomes.append(receiver.close().failure)

        threads = [threading.Thread(target=ask_silent, args=(room,)) for room in range(100, 140)]
        for thread in threads:
            thread.start()
        sources = [Source(side.endpoint, at) for side, at in zip((prefill.side, dummy.side), both, strict=True)]
        receiver = decode.side.open(7, sources, decode.side.pages.take(PAGES), timeout=300)
        assert receiver.state.failure is None, receiver.state.reason
        receiver.close()
        for thread in threads:
            thread.join(60)
    assert outcomes == [Failure.UNREACHABLE] * 40
    until(lambda: all_free(decode), "nothing is in quarantine")


def test_an_engine_that_was_lost_is_started_anew_once_for_all_who_notice(decode, monkeypatch):
    engine, resets, all_wait = decode.engine, [], threading.Barrier(4)
    reset = engine.reset

    def slow() -> str:
        resets.append(1)
        time.sleep(0.2)  # as long as a process takes to start: the others come meanwhile
        return reset()

    monkeypatch.setattr(engine, "reset", slow)
    engine.close()
    assert not engine.alive

    def one(room: int) -> None:
        all_wait.wait(30)
        gone = Source(Endpoint("127.0.0.1", 9), Place())
        decode.side.open(room, [gone], decode.side.pages.take(1), timeout=60).close()

    threads = [threading.Thread(target=one, args=(room,)) for room in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert resets == [1]
    assert engine.alive and all_free(decode)


def test_fewer_pages_than_the_decode_keeps_fail_the_room_instead_of_leaving_it_what_lay_there_before(prefill, decode):
    receiver, sender = ask(decode, prefill, 7), prefill.side.open(7)
    sender.wait_until_asked(30)
    sender.finish(prefill.side.pages.take(PAGES - 1), metadata={"output_ids": [5]})
    assert sender.wait(30) is Poll.FAILED
    assert receiver.wait(30) is Poll.FAILED
    assert receiver.close().reason.endswith(
        "the decode rank keeps 2 pages, and only 1 come: their prompts differ; nothing of it may be used"
    )
    sender.close()
    until(lambda: all_free(prefill, decode), "the abort is acknowledged")


def test_a_chunk_goes_to_the_engine_in_pieces_and_no_more_of_them_once_the_room_is_given_up(
    prefill, decode, monkeypatch
):
    monkeypatch.setattr(sender_module, "PIECE_BYTES", SHAPE.head_bytes)
    write, sizes, aborted = prefill.engine.write, [], threading.Event()

    def first_waits(session, blocks, **more):
        sizes.append(sum(length for _, _, length in blocks))
        assert len(sizes) > 1 or aborted.wait(30)
        write(session, blocks, **more)

    monkeypatch.setattr(prefill.engine, "write", first_waits)
    receiver, sender = ask(decode, prefill, 7), prefill.side.open(7)
    sender.wait_until_asked(30)
    sender.finish(prefill.side.pages.take(PAGES))
    until(lambda: bool(sizes), "the first piece is under way")
    receiver.abort("the client went away")
    until(lambda: sender.poll() is Poll.FAILED, "the prefill has heard of it")
    aborted.set()
    until(lambda: receiver.state.is_settled, "it is acknowledged after that piece")
    assert sizes == [SHAPE.head_bytes]
    receiver.close()
    sender.close()
    assert all_free(prefill, decode)


def test_a_decode_that_was_queued_while_the_prefill_gave_up_is_told_instead_of_waiting_for_its_own_time_out(
    prefill, decode, monkeypatch
):
    monkeypatch.setattr(sending, "PATIENCE_SECONDS", 0.3)
    sender = prefill.side.open(7, timeout=0.01)
    assert sender.wait(30) is Poll.FAILED
    sender.close()
    long_ago = time.monotonic() - REMEMBERED_SECONDS
    monkeypatch.setitem(prefill.side._ended, 7, replace(prefill.side._ended[7], at=long_ago))
    receiver = ask(decode, prefill, 7, timeout=300)
    assert receiver.wait(30) is Poll.FAILED
    assert "0 of 1 decode ranks asked for room 7 in time" in receiver.close().reason
    until(lambda: all_free(decode), "the abort is acknowledged")


def test_a_room_whose_number_is_used_again_inherits_no_failure_when_its_decode_is_faster(prefill, decode, monkeypatch):
    monkeypatch.setattr(sending, "PATIENCE_SECONDS", 60.0)
    first = prefill.side.open(7)
    first.abort("out of memory")
    first.close()
    long_ago = time.monotonic() - REMEMBERED_SECONDS
    monkeypatch.setitem(prefill.side._ended, 7, replace(prefill.side._ended[7], at=long_ago))
    receiver = ask(decode, prefill, 7)
    until(lambda: prefill.side.early_rooms == 1, "the decode has asked")
    sender = prefill.side.open(7)
    assert sender.wait_until_asked(30) is Poll.WAITING_FOR_INPUT
    sender.finish(prefill.side.pages.take(PAGES))
    assert sender.wait(30) is Poll.SUCCESS
    assert receiver.wait(30) is Poll.SUCCESS
    receiver.close()
    sender.close()


def test_a_decode_that_took_nothing_is_tried_by_one_room_at_a_time_and_the_others_fail_at_once(prefill, decode):
    receiver, sender = ask(decode, prefill, 7), prefill.side.open(7)
    assert sender.wait_until_asked(30) is Poll.WAITING_FOR_INPUT
    session = decode.engine.session
    prefill.side.rest(session, "its process may be frozen")
    with pytest.raises(TransferError, match="may be frozen"):
        prefill.side.registration(session)
    prefill.side._resting[session] = (0.0, "its process may be frozen")
    assert prefill.side.registration(session).session == session
    with pytest.raises(TransferError, match="may be frozen"):
        prefill.side.registration(session)
    prefill.side._resting[session] = (0.0, "its process may be frozen")
    sender.finish(prefill.side.pages.take(PAGES))
    assert sender.wait(30) is Poll.SUCCESS
    assert prefill.side._resting == {}
    assert receiver.wait(30) is Poll.SUCCESS
    receiver.close()
    sender.close()
