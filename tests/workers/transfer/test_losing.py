"""A prefill rank that hangs up: who waits for it fails soon, and only when its process is gone or another stands there."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from controlplane.domain.contact import Contact
from tests.support.machine import slowness
from tests.support.ports import held_port
from tests.workers.transfer import faults
from tests.workers.transfer.faults import PeerProcess
from tests.workers.transfer.ranks import Rank, rank
from workers.messaging.endpoint import Endpoint
from workers.messaging.inbox import Inbox
from workers.messaging.outbox import Outbox
from workers.messaging.replies import Poll, Status
from workers.messaging.requests import read_request
from workers.messaging.sockets import MAX_FRAME_BYTES
from workers.transfer import losing
from workers.transfer.decode import DecodeSide
from workers.transfer.layout import Place
from workers.transfer.losing import Doubt
from workers.transfer.receiver import Receiver, Source
from workers.transfer.receiving import Failure

SOON = 3.0
FIRST, SECOND = Place(tp_rank=0, tp_size=2), Place(tp_rank=1, tp_size=2)


def after(*contacts: Contact) -> Doubt:
    doubt = Doubt(due=0.0)
    for contact in contacts:
        doubt = losing.look(doubt, contact, now=doubt.due)
    return doubt


@pytest.mark.parametrize(
    ("contacts", "is_gone"),
    [
        ([Contact.REFUSED], False),
        ([Contact.REFUSED, Contact.REFUSED], True),
        ([Contact.REFUSED, Contact.SILENT, Contact.REFUSED], False),
        ([Contact.SILENT, Contact.REFUSED, Contact.REFUSED], True),
        ([Contact.SILENT] * 20, False),
        ([Contact.UNREACHED] * 20, False),
        ([Contact.STRANGER] * 20, False),
        ([Contact.REFUSED, Contact.UP], False),
    ],
)
def test_only_a_port_that_refuses_twice_in_a_row_is_proof_of_a_process_that_is_gone(contacts, is_gone):
    doubt = after(*contacts)
    assert (doubt.is_gone, doubt.is_over) == (is_gone, is_gone)
    assert doubt.is_back == (contacts[-1] is Contact.UP)


def test_who_is_gone_is_known_within_a_second_and_who_is_back_is_asked_for_its_identity_for_some_seconds():
    assert after(Contact.REFUSED, Contact.REFUSED).due < 2
    doubt, now = after(Contact.UP), 0.0
    while not doubt.is_over:
        now = doubt.due
        doubt = losing.ask(doubt, now=now)
    assert 5 <= now <= 10
    assert not doubt.is_gone


@pytest.fixture
def decode() -> Iterator[Rank[DecodeSide]]:
    made = rank(DecodeSide, faults.SHAPE, Place(), faults.DTYPE, "zmq", pages=64)
    yield made
    made.close()


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as held:
        yield held


def listening(port: int = 0) -> Inbox:
    """A prefill rank as a decode sees it until it answers. Once it is closed, its port refuses, as after kill -9."""
    return Inbox("127.0.0.1", port, read_request)


def ask(decode: Rank[DecodeSide], room: int, *sources: Source, **more: Callable[[], str]) -> Receiver:
    return decode.side.open(room, sources, decode.side.pages.take(1), timeout=120, **more)


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, f"not in 30 s: {what}"
        time.sleep(0.01)


def test_exactly_the_rooms_that_wait_for_a_dead_rank_fail_soon_name_it_and_keep_their_pages_in_quarantine(decode, port):
    dead, other, word = listening(port), listening(), Outbox()
    first, second = Source(dead.endpoint, FIRST), Source(other.endpoint, SECOND)
    alone = [ask(decode, room, first) for room in (1, 2)]
    both, apart, answered = ask(decode, 3, first, second), ask(decode, 4, second), ask(decode, 5, first, second)
    told = ask(decode, 6, Source(dead.endpoint, FIRST, is_dummy=True), second)
    word.send(decode.side.endpoint, Status(room=5, poll=Poll.SUCCESS, prefill_rank=0).frames())
    until(lambda: 0 in answered.state.answered, "the word of a rank that then dies")
    slow = slowness()
    began = time.monotonic()
    dead.close()
    for receiver in (*alone, both):
        assert receiver.wait(30) is Poll.FAILED
        assert receiver.state.failure is Failure.LOST
        assert receiver.state.reason == losing.gone(0, dead.endpoint)
    assert time.monotonic() - began < SOON * slow
    for receiver in (apart, answered, told):
        assert not receiver.state.is_over
    assert not alone[0].close().settled
    assert decode.side.pages.held == 1
    word.close()
    other.close()


def test_a_connection_that_was_cut_costs_no_room_and_the_death_that_follows_is_noticed_all_the_same(decode, port):
    lives = listening(port)
    receiver = ask(decode, 1, Source(lives.endpoint, Place()), replaced=lambda: "")
    line = receiver.lines[lives.endpoint]
    # What is too long ends the connection, and nothing else.
    decode.side._courier.outbox.send(lives.endpoint, [b"7", b"4", bytes(MAX_FRAME_BYTES + 1)])
    until(lambda: receiver.lines[lives.endpoint] != line, "it is connected again")
    assert not receiver.state.is_over
    lives.close()
    assert receiver.wait(30) is Poll.FAILED
    assert receiver.state.reason == losing.gone(0, lives.endpoint)


def test_rooms_of_before_are_lost_with_a_launch_that_restarted_at_the_same_port_and_those_of_after_are_not(
    decode, port
):
    asked = []

    def replaced() -> str:
        # The directory learns of a launch a while after it took its port.
        asked.append(time.monotonic())
        return "launch 4 is there now, not launch 3" if len(asked) > 1 else ""

    old = listening(port)
    source = Source(old.endpoint, Place())
    before, nobody_knows = ask(decode, 1, source, replaced=replaced), ask(decode, 2, source)
    old.close()
    new = listening(port)
    outbox = decode.side._courier.outbox
    until(lambda: not outbox.is_open(old.endpoint, nobody_knows.lines[old.endpoint]), "that it hung up is noticed")
    afterwards = ask(decode, 3, source, replaced=lambda: "of another room")
    assert before.wait(30) is Poll.FAILED
    assert before.state.failure is Failure.LOST
    assert before.state.reason == losing.restarted(0, old.endpoint, "launch 4 is there now, not launch 3")
    assert not nobody_knows.state.is_over, "without an identity it keeps its own bound"
    assert not afterwards.state.is_over
    new.close()


def test_a_prefill_that_is_stopped_keeps_the_room_s_own_bound_and_one_that_is_killed_does_not(decode, port, tmp_path):
    peer = PeerProcess("prefill_peer", tmp_path / "peer.log", "zmq", port)
    try:
        receiver = ask(decode, 1, Source(Endpoint("127.0.0.1", port), Place()))
        slow = slowness()
        peer.suffer("stopped")
        assert receiver.wait(2.0) is Poll.WAITING_FOR_INPUT
        began = time.monotonic()
        peer.child.kill9()
        assert receiver.wait(60) is Poll.FAILED
        assert receiver.state.failure is Failure.LOST
        assert time.monotonic() - began < SOON * slow
    finally:
        peer.child.kill9()


def test_many_rooms_that_wait_do_not_wake_each_other():
    decode = rank(DecodeSide, faults.SHAPE, Place(), faults.DTYPE, "zmq", pages=32, slots=32)
    lives = listening()
    try:
        receivers = [ask(decode, room, Source(lives.endpoint, Place())) for room in range(1, 21)]
        threads = [threading.Thread(target=receiver.wait, args=(2.0,)) for receiver in receivers]
        used = time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert time.process_time() - used < 1.0, "to wait costs next to nothing"
        assert not any(receiver.state.is_over for receiver in receivers)
    finally:
        lives.close()
        decode.close()
