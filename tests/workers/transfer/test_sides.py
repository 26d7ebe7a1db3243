"""A prefill rank and a decode rank: what may go wrong with a room, and that nothing unproven is ever handed out."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.machine import slowness
from tests.workers.transfer.ranks import Rank, assert_has, put_share, rank, whole_kv
from workers.messaging.endpoint import Endpoint
from workers.messaging.outbox import Outbox
from workers.messaging.replies import AbortAck, AuxData, Poll, Status
from workers.messaging.requests import Abort
from workers.transfer import prefill as prefill_module
from workers.transfer.decode import DecodeSide
from workers.transfer.errors import NothingFree, RoomTaken, TransferError, TransferFailed
from workers.transfer.layout import Place
from workers.transfer.pool import shape_of
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Receiver, Source
from workers.transfer.receiving import Failure
from workers.transfer.sending import LATE_SECONDS

DTYPE = torch.float16
SHAPE = shape_of(layers=2, heads=2, head_dim=8, dtype=DTYPE, page_size=4)
TOKENS = 8
PAGES = 2
Prefill, Decode = Rank[PrefillSide], Rank[DecodeSide]


@pytest.fixture
def prefill():
    made = rank(PrefillSide, SHAPE, Place(), DTYPE, "zmq", checksums=True)
    yield made
    made.close()


@pytest.fixture
def decode():
    made = rank(DecodeSide, SHAPE, Place(), DTYPE, "zmq")
    yield made
    made.close()


def ask(decode: Decode, prefill: Prefill | Endpoint, room: int, **more: Any) -> Receiver:
    endpoint = prefill if isinstance(prefill, Endpoint) else prefill.side.endpoint
    pages = decode.side.pages.take(PAGES)
    return decode.side.open(room, [Source(endpoint, Place())], pages, **{"timeout": 30, **more})


def send(prefill: Prefill, room: int, whole: torch.Tensor, **metadata: list[int]) -> Poll:
    sender = prefill.side.open(room, timeout=30)
    try:
        if sender.wait_until_asked(30) is Poll.FAILED:
            return Poll.FAILED
        pages = prefill.side.pages.take(PAGES)
        put_share(prefill, whole, pages, 0, TOKENS)
        sender.finish(pages, metadata={"output_ids": [1], **metadata})
        return sender.wait(30)
    finally:
        sender.close()


def until(true: Callable[[], bool], what: str, within: float = 30) -> None:
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, f"not in {within} s: {what}"
        time.sleep(0.01)


def all_free(*ranks: Prefill | Decode) -> bool:
    return all(r.side.pages.free == r.side.pages.size and r.side.slots.free == r.side.slots.size for r in ranks)


@pytest.mark.parametrize("prefill_first", [True, False])
def test_either_side_may_come_first(prefill, decode, prefill_first):
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=1)
    done = []
    sending = threading.Thread(target=lambda: done.append(send(prefill, 7, whole)))
    if prefill_first:
        sending.start()
        until(lambda: 7 in prefill.side._rooms, "the prefill knows the room")
    receiver = ask(decode, prefill, 7)
    if not prefill_first:
        until(lambda: prefill.side.early_rooms == 1, "the decode has asked")
        sending.start()
    assert receiver.wait(30) is Poll.SUCCESS
    sending.join(30)
    assert done == [Poll.SUCCESS]
    assert prefill.side.early_rooms == 0
    assert_has(decode, whole, receiver.pages)
    receiver.close()
    assert all_free(prefill, decode)


def test_a_room_that_is_in_use_is_refused_on_either_side_and_free_again_afterwards(prefill, decode):
    receiver, sender = ask(decode, prefill, 7), prefill.side.open(7)
    pages = decode.side.pages.take(PAGES)
    with pytest.raises(RoomTaken, match="a room names one request"):
        decode.side.open(7, [Source(prefill.side.endpoint, Place())], pages)
    decode.side.pages.give_back(pages)
    with pytest.raises(RoomTaken, match="a room names one request"):
        prefill.side.open(7)
    receiver.close()
    sender.close()
    until(lambda: all_free(prefill, decode), "the abort is acknowledged")
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=2)
    again = ask(decode, prefill, 7)
    assert send(prefill, 7, whole) is Poll.SUCCESS
    assert again.wait(30) is Poll.SUCCESS
    again.close()


def test_a_decode_that_was_told_late_that_a_room_is_over_may_use_it_again(prefill, decode):
    prefill.side.open(7).close()
    late = ask(decode, prefill, 7)
    assert late.wait(30) is Poll.FAILED and "closed the room" in late.close().reason
    until(lambda: all_free(prefill, decode), "the room is over on both sides")
    again = ask(decode, prefill, 7)
    assert send(prefill, 7, whole_kv(SHAPE, DTYPE, TOKENS, seed=3)) is Poll.SUCCESS
    assert again.wait(30) is Poll.SUCCESS
    again.close()


@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_1000_requests_of_which_every_50th_is_of_another_room_and_none_of_those_is_consumed(backend, monkeypatch):
    with contextlib.ExitStack() as stack:
        prefill = rank(PrefillSide, SHAPE, Place(), DTYPE, backend, checksums=True)
        stack.callback(prefill.close)
        decode = rank(DecodeSide, SHAPE, Place(), DTYPE, backend)
        stack.callback(decode.close)
        corrupted_rooms_are_caught(prefill, decode, monkeypatch)


def corrupted_rooms_are_caught(prefill: Prefill, decode: Decode, monkeypatch: pytest.MonkeyPatch) -> None:
    set_room = prefill.metadata.set_room
    monkeypatch.setattr(
        prefill.metadata, "set_room", lambda slot, room: set_room(slot, room + 1 if room % 50 == 0 else room)
    )
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=3)
    caught, consumed = [], 0
    for room in range(1, 1001):
        receiver = ask(decode, prefill, room)
        assert send(prefill, room, whole, output_ids=[room]) is Poll.SUCCESS
        poll = receiver.wait(30)
        if poll is Poll.SUCCESS:
            assert receiver.metadata()["output_ids"][0] == room
            consumed += 1
        else:
            with pytest.raises(TransferError, match="is not proven"):
                receiver.metadata()
        outcome = receiver.close()
        if outcome.failure is Failure.OTHER_ROOM:
            assert f"of room {room + 1}, not of {room}" in outcome.reason
            caught.append(room)
    assert caught == list(range(50, 1001, 50))
    assert consumed == 980
    assert all_free(prefill, decode)


def test_a_page_that_is_not_what_was_sent_is_found_by_its_checksum(prefill, decode, monkeypatch):
    write = prefill.engine.write

    def damaged(session: str, blocks: list, **more: Any) -> None:
        write(session, blocks, **more)
        if len(blocks) >= SHAPE.layers:  # the KV, not the metadata
            local, remote, _ = blocks[-1]
            write(session, [(local + 1, remote, 1)])

    monkeypatch.setattr(prefill.engine, "write", damaged)
    generator = torch.arange(2 * SHAPE.layers * TOKENS * SHAPE.heads * SHAPE.head_bytes) % 251
    whole = generator.to(torch.uint8).view(2, SHAPE.layers, TOKENS, SHAPE.heads, SHAPE.head_bytes).view(DTYPE)
    receiver = ask(decode, prefill, 7)
    assert send(prefill, 7, whole) is Poll.SUCCESS
    assert receiver.wait(30) is Poll.FAILED
    outcome = receiver.close()
    assert outcome.failure is Failure.DAMAGED
    assert "is not what prefill rank 0 sent" in outcome.reason
    assert all_free(decode)


def test_an_abort_of_the_decode_ends_the_prefills_wait_and_frees_the_pages_when_it_is_acknowledged(prefill, decode):
    receiver, sender = ask(decode, prefill, 7), prefill.side.open(7)
    assert sender.wait_until_asked(30) is Poll.WAITING_FOR_INPUT
    receiver.abort("the client went away")
    assert sender.wait(30) is Poll.FAILED
    assert "gave the room up" in sender.reason
    assert receiver.close().failure is Failure.ABORTED
    until(lambda: all_free(decode), "the abort is acknowledged")
    sender.close()


def test_an_abort_of_the_prefill_ends_the_decodes_wait_soon(prefill, decode):
    slow = slowness()
    receiver, sender = ask(decode, prefill, 7, timeout=300), prefill.side.open(7)
    sender.wait_until_asked(30)
    began = time.monotonic()
    sender.abort("out of memory")
    assert receiver.wait(30) is Poll.FAILED
    assert time.monotonic() - began < 2 * slow
    assert receiver.close().reason == "prefill rank 0 failed: out of memory"
    until(lambda: all_free(decode), "the abort is acknowledged")
    sender.close()


def test_a_decode_that_asks_after_the_prefill_failed_is_told_at_once(prefill, decode, monkeypatch):
    sender = prefill.side.open(7)
    sender.abort("out of memory")
    for closed in (False, True):
        if closed:
            sender.close()
        receiver = ask(decode, prefill, 7, timeout=300)
        assert receiver.wait(30) is Poll.FAILED
        assert "out of memory" in receiver.close().reason
    # After a while the number of the room means another request, which inherits nothing.
    monkeypatch.setitem(prefill.side._ended, 7, replace(prefill.side._ended[7], at=time.monotonic() - LATE_SECONDS))
    receiver = ask(decode, prefill, 7, timeout=300)
    assert send(prefill, 7, whole_kv(SHAPE, DTYPE, TOKENS, seed=1)) is Poll.SUCCESS
    assert receiver.wait(30) is Poll.SUCCESS
    receiver.close()


def test_an_abort_that_is_faster_than_the_prefills_own_request_fails_it_at_once_and_nothing_that_comes_later(
    prefill, decode
):
    ask(decode, prefill, 7).close()
    until(lambda: all_free(decode), "the abort is acknowledged")
    sender = prefill.side.open(7)
    assert sender.poll() is Poll.FAILED
    assert "gave the room up" in sender.reason
    sender.close()
    # Late word of that abort, when the room is used again, is of another attempt.
    assert not prefill.side._ended.pop(7).poisoned
    receiver = ask(decode, prefill, 7)
    sender = prefill.side.open(7)
    assert sender.wait_until_asked(30) is Poll.WAITING_FOR_INPUT
    outbox = Outbox(connect_seconds=20)
    late = Abort(room=7, endpoint=decode.side.endpoint, generation=1, attempt="of-before")
    outbox.send(prefill.side.endpoint, late.frames())
    outbox.send(prefill.side.endpoint, [b"7", b"nothing that can be read"])
    until(lambda: prefill.side._inbox.refused == 1, "both are heard")
    assert sender.poll() is Poll.WAITING_FOR_INPUT
    sender.finish(prefill.side.pages.take(PAGES))
    assert sender.wait(30) is Poll.SUCCESS
    assert receiver.wait(30) is Poll.SUCCESS
    receiver.close()
    sender.close()
    outbox.close()


def test_a_prefill_whose_decode_never_asks_and_a_decode_whose_prefill_never_sends_end_at_their_deadlines(
    prefill, decode
):
    sender = prefill.side.open(7, timeout=0.3)
    assert sender.wait(30) is Poll.FAILED
    assert "0 of 1 decode ranks asked for room 7 in time" in sender.reason
    sender.close()
    receiver = ask(decode, prefill, 8, timeout=0.3)
    assert receiver.wait(30) is Poll.FAILED
    assert receiver.close().reason == "0 of 1 prefill ranks answered in time"
    until(lambda: all_free(decode), "the abort is acknowledged")


def test_pages_that_a_lost_prefill_may_still_write_stay_in_quarantine_until_the_engine_is_reset(decode):
    prefill = rank(PrefillSide, SHAPE, Place(), DTYPE, "zmq")
    receiver = ask(decode, prefill, 7, timeout=0.5)
    prefill.side._listener.stop()  # it hears no abort, and its engine lives on
    assert receiver.wait(30) is Poll.FAILED
    outcome = receiver.close()
    assert not outcome.settled
    assert (decode.side.pages.held, decode.side.slots.held) == (PAGES, 1)
    with pytest.raises(NothingFree, match="2 are in quarantine"):
        decode.side.pages.take(decode.side.pages.size)
    before = decode.engine.session
    decode.side.reset()
    assert decode.engine.session != before
    assert all_free(decode)
    prefill.close()


def test_a_reset_fails_what_is_open_and_the_next_request_tells_the_new_session(prefill, decode):
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=4)
    for room in (1, 2):
        open_room = ask(decode, prefill, 10 + room)
        decode.side.reset()
        assert open_room.poll() is Poll.FAILED
        outcome = open_room.close()
        assert (outcome.failure, outcome.settled) == (Failure.ENGINE_RESET, True)
        receiver = ask(decode, prefill, room)
        assert send(prefill, room, whole) is Poll.SUCCESS
        assert receiver.wait(30) is Poll.SUCCESS
        receiver.close()
    assert all_free(prefill, decode)


def test_a_write_that_ended_in_doubt_is_never_acknowledged_and_fails_what_follows_for_a_while(
    prefill, decode, monkeypatch
):
    def doubtful(*args: Any, **more: Any) -> None:
        raise TransferFailed("it failed or timed out", settled=False)

    write = prefill.engine.write
    monkeypatch.setattr(prefill.engine, "write", doubtful)
    receiver = ask(decode, prefill, 7)
    assert send(prefill, 7, whole_kv(SHAPE, DTYPE, TOKENS, seed=1)) is Poll.FAILED
    assert receiver.wait(30) is Poll.FAILED
    assert not receiver.close().settled
    # The abort reaches the prefill, also after its room is closed, and is not answered.
    until(lambda: prefill.side.ignored > 0 or not prefill.side._rooms, "the abort is heard")
    outbox = Outbox(connect_seconds=20)
    outbox.send(prefill.side.endpoint, Abort(room=7, endpoint=decode.side.endpoint, generation=1).frames())
    until(lambda: prefill.side.ignored > 0, "another abort is heard")
    outbox.close()
    assert decode.side.pages.held == PAGES
    assert prefill.side.pages.held == PAGES
    monkeypatch.setattr(prefill.engine, "write", write)
    again = ask(decode, prefill, 8)
    assert send(prefill, 8, whole_kv(SHAPE, DTYPE, TOKENS, seed=1)) is Poll.FAILED
    assert again.wait(30) is Poll.FAILED
    assert "failed a moment ago" in again.close().reason
    prefill.side.reset()
    decode.side.reset()
    assert all_free(prefill, decode)
    # A decode that registered anew is tried at once.
    third = ask(decode, prefill, 9)
    assert send(prefill, 9, whole_kv(SHAPE, DTYPE, TOKENS, seed=1)) is Poll.SUCCESS
    assert third.wait(30) is Poll.SUCCESS
    third.close()


def test_engines_whose_processes_were_killed_cost_one_room_each_and_are_started_anew():
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=5)
    with contextlib.ExitStack() as stack:
        prefill = rank(PrefillSide, SHAPE, Place(), DTYPE, "mooncake")
        stack.callback(prefill.close)
        decode = rank(DecodeSide, SHAPE, Place(), DTYPE, "mooncake")
        stack.callback(decode.close)
        os.kill(prefill.engine.pid, signal.SIGKILL)
        lost = ask(decode, prefill, 1)
        assert send(prefill, 1, whole) is Poll.FAILED
        assert lost.wait(30) is Poll.FAILED
        assert "mooncake's process ended" in lost.close().reason
        receiver = ask(decode, prefill, 2)
        assert send(prefill, 2, whole) is Poll.SUCCESS
        assert receiver.wait(30) is Poll.SUCCESS
        receiver.close()
        assert all_free(prefill)
        os.kill(decode.engine.pid, signal.SIGKILL)
        until(lambda: not decode.engine.alive, "the decode has heard of it")
        receiver = ask(decode, prefill, 3)
        assert send(prefill, 3, whole) is Poll.SUCCESS
        assert receiver.wait(30) is Poll.SUCCESS
        assert_has(decode, whole, receiver.pages)
        receiver.close()
        assert all_free(prefill, decode)


def test_late_word_of_an_earlier_use_of_a_room_does_not_touch_the_next(prefill, decode):
    first = ask(decode, prefill, 7)
    before = first.state.attempt
    first.close()
    until(lambda: all_free(decode), "the abort is acknowledged")
    second = ask(decode, prefill, 7)
    outbox = Outbox(connect_seconds=20)
    late = Status(room=7, poll=Poll.FAILED, prefill_rank=0, reason="of before", attempt=before)
    for message in (
        late,
        AbortAck(room=7, prefill_rank=0, generation=1),
        Status(room=99, poll=Poll.FAILED, prefill_rank=0),
    ):
        outbox.send(decode.side.endpoint, message.frames())
    until(lambda: decode.side.late >= 2, "the late words are heard")
    assert not second.state.is_over
    assert not second.state.acknowledged
    assert send(prefill, 7, whole_kv(SHAPE, DTYPE, TOKENS, seed=1)) is Poll.SUCCESS
    assert second.wait(30) is Poll.SUCCESS
    second.close()
    outbox.close()


def test_metadata_in_a_message_lands_in_the_slot_of_its_room_only(prefill, decode):
    receiver = ask(decode, prefill, 7)
    outbox = Outbox(connect_seconds=20)
    row = (5).to_bytes(4, "little") + bytes(60)
    for room, slot in ((7, receiver.slot), (7, receiver.slot + 1), (8, receiver.slot)):
        data = row if room == 7 else bytes([255]) * 64
        outbox.send(decode.side.endpoint, AuxData(room=room, buffer=0, aux_index=slot, data=data).frames())
    outbox.send(decode.side.endpoint, AuxData(room=7, buffer=0, aux_index=receiver.slot, data=b"short").frames())
    outbox.send(decode.side.endpoint, Status(room=99, poll=Poll.FAILED, prefill_rank=0).frames())
    until(lambda: decode.side.late == 1, "all of it is heard")
    assert decode.metadata.read(receiver.slot)["output_ids"] == (5, *[0] * 15)
    assert decode.metadata.read(receiver.slot + 1)["output_ids"] == (0,) * 16
    outbox.close()
    receiver.close()


def test_a_source_that_cannot_be_reached_fails_the_room_and_its_pages_wait_for_nobody(decode):
    receiver = ask(decode, Endpoint("127.0.0.1", 9), 7)
    assert receiver.poll() is Poll.FAILED
    outcome = receiver.close()
    assert outcome.failure is Failure.UNREACHABLE
    assert "127.0.0.1:9 cannot be reached" in outcome.reason
    assert outcome.settled and all_free(decode)


def test_rooms_that_only_a_decode_speaks_of_are_bounded_and_end(prefill, decode, monkeypatch):
    monkeypatch.setattr(prefill_module, "MAX_EARLY_ROOMS", 3)
    monkeypatch.setattr(prefill_module, "EARLY_SECONDS", 0.5)
    receivers = [ask(decode, prefill, room, timeout=300) for room in range(1, 6)]
    until(lambda: prefill.side.ignored == 2, "two rooms are beyond the bound")
    assert prefill.side.early_rooms <= 3
    until(lambda: prefill.side.early_rooms == 0, "the early rooms have ended")
    for receiver in receivers:
        receiver.close()


def test_pages_go_out_in_chunks_and_only_after_the_decode_has_asked(prefill, decode):
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=6)
    sender = prefill.side.open(7)
    with pytest.raises(TransferError, match="wait_until_asked first"):
        sender.send([0])
    receiver = ask(decode, prefill, 7)
    assert sender.wait_until_asked(30) is Poll.WAITING_FOR_INPUT
    for page, first in enumerate(range(0, TOKENS, SHAPE.page_size)):
        (taken,) = prefill.side.pages.take(1)
        put_share(prefill, whole, [taken], first, SHAPE.page_size)
        sender.send([taken])
        assert receiver.poll() is not Poll.SUCCESS, page
    sender.finish(metadata={"output_ids": [5]})
    with pytest.raises(TransferError, match="finished already"):
        sender.finish()
    assert sender.wait(30) is Poll.SUCCESS
    assert receiver.wait(30) is Poll.SUCCESS
    assert_has(decode, whole, receiver.pages)
    receiver.close()
    sender.close()


def test_more_pages_than_the_decode_keeps_fail_the_room_with_a_sentence(prefill, decode):
    receiver, sender = ask(decode, prefill, 7), prefill.side.open(7)
    sender.wait_until_asked(30)
    sender.finish(prefill.side.pages.take(PAGES + 1))
    assert sender.wait(30) is Poll.FAILED
    assert "the decode rank keeps 2 pages, 3 are to be sent" in sender.reason
    assert receiver.wait(30) is Poll.FAILED
    receiver.close()
    sender.close()
    until(lambda: all_free(prefill, decode), "the abort is acknowledged")


def test_a_prefill_that_shuts_down_says_so(decode):
    prefill = rank(PrefillSide, SHAPE, Place(), DTYPE, "zmq")
    receiver = ask(decode, prefill, 7, timeout=300)
    until(lambda: prefill.side.early_rooms == 1, "the decode has asked")
    prefill.close()
    assert receiver.wait(30) is Poll.FAILED
    assert "shutting down" in receiver.close().reason


def test_many_rooms_at_once_do_not_mix(prefill, decode):
    def one(room: int) -> None:
        whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=room)
        receiver = ask(decode, prefill, room)
        sent = threading.Thread(target=send, args=(prefill, room, whole), kwargs={"output_ids": [room]})
        sent.start()
        assert receiver.wait(60) is Poll.SUCCESS, receiver.state
        assert receiver.metadata()["output_ids"][0] == room
        assert_has(decode, whole, receiver.pages)
        receiver.close()
        sent.join(30)
        done.append(room)

    done: list[int] = []
    for start in range(1, 61, 6):
        threads = [threading.Thread(target=one, args=(room,)) for room in range(start, start + 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
    assert sorted(done) == list(range(1, 61))
    assert all_free(prefill, decode)
