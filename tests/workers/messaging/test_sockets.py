"""Inbox and outbox on real sockets: delivery, bounds, peers that are gone, silent, frozen, strange."""

import errno
import socket
import threading
import time

import pytest
import zmq

from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from tests.support.machine import slowness
from tests.support.ports import free_port, held_port
from workers.messaging import outbox as outbox_module
from workers.messaging.endpoint import Endpoint
from workers.messaging.errors import Closed, Congested, MessagingError, Unreachable
from workers.messaging.greeting import greet
from workers.messaging.inbox import Inbox, Listener
from workers.messaging.outbox import Outbox
from workers.messaging.replies import Poll, Status, read_reply
from workers.messaging.requests import MAX_FRAMES

HOSTS = ["127.0.0.1", "::1"]


def status(room: int) -> Status:
    return Status(room=room, poll=Poll.SUCCESS, prefill_rank=0)


@pytest.fixture
def outbox():
    made = Outbox(connect_seconds=20, send_seconds=20)
    yield made
    made.close()


@pytest.fixture
def inbox():
    made = Inbox("127.0.0.1", 0, read_reply)
    yield made
    made.close()


def receive(inbox: Inbox[Status], within: float = 20) -> Status:
    found = inbox.receive(within)
    assert found is not None, "nothing arrived"
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_messages_arrive_in_order_over_ipv4_and_ipv6(host, outbox):
    inbox = Inbox(host, 0, read_reply)
    try:
        for room in range(100):
            outbox.send(inbox.endpoint, status(room).frames())
        assert [receive(inbox).room for _ in range(100)] == list(range(100))
        assert greet(inbox.endpoint, timeout=20) is Contact.UP
    finally:
        inbox.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "169.254.1.1"])
def test_an_inbox_listens_on_one_address_and_never_on_all(host):
    with pytest.raises(Refused):
        Inbox(host, 0, read_reply)


def test_a_port_that_is_taken_is_named(inbox):
    with pytest.raises(MessagingError, match=str(inbox.endpoint.port)):
        Inbox("127.0.0.1", inbox.endpoint.port, read_reply)


def test_what_cannot_be_read_is_counted_and_what_follows_is_read(inbox, outbox):
    for frames in ([b"x"], [b"7", b"9", b"0"], [b"7"] * (MAX_FRAMES + 5), [b"\x80\x04\x95"] * 3):
        outbox.send(inbox.endpoint, frames)
    outbox.send(inbox.endpoint, status(7).frames())
    assert receive(inbox).room == 7
    assert inbox.refused == 4


def test_a_frame_beyond_the_limit_ends_the_connection_and_not_the_inbox(inbox, outbox):
    other = Outbox(connect_seconds=20)
    try:
        other.send(inbox.endpoint, [b"7", b"4", bytes(2**23 + 1)])
        outbox.send(inbox.endpoint, status(8).frames())
        assert receive(inbox).room == 8
        assert inbox.receive(0.1) is None
    finally:
        other.close()


def test_nobody_there_is_said_at_once(outbox):
    slow = slowness()
    began = time.monotonic()
    with pytest.raises(Unreachable, match="nobody listens"):
        outbox.send(Endpoint("127.0.0.1", free_port()), status(7).frames())
    assert time.monotonic() - began < 2 * slow


def test_a_port_that_accepts_and_says_nothing_costs_its_bound_and_holds_up_nobody_else(inbox):
    slow = slowness()
    outbox = Outbox(connect_seconds=outbox_module.CONNECT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        to = Endpoint("127.0.0.1", silent.getsockname()[1])
        took = []

        def send() -> None:
            began = time.monotonic()
            with pytest.raises(Unreachable, match="does not greet"):
                outbox.send(to, status(7).frames())
            took.append(time.monotonic() - began)

        stuck = threading.Thread(target=send)
        stuck.start()
        began = time.monotonic()
        outbox.send(inbox.endpoint, status(8).frames())
        other = time.monotonic() - began
        stuck.join(30)
        assert receive(inbox).room == 8
        assert other < 1.5 * slow
        assert took and took[0] < (outbox_module.CONNECT_SECONDS + 1) * slow
        assert greet(to, timeout=0.3) is Contact.SILENT
        outbox.close()


def test_a_peer_that_was_silent_is_waited_for_by_one_at_a_time_and_the_others_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(outbox_module, "SULK_SECONDS", 600.0)
    outbox = Outbox(connect_seconds=0.2)
    tries = []
    connect = outbox._connect
    monkeypatch.setattr(outbox, "_connect", lambda *args: tries.append(args) or connect(*args))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        to = Endpoint("127.0.0.1", silent.getsockname()[1])
        for said in ("does not greet$", *[r"does not greet \(a moment ago; it is tried again soon\)"] * 20):
            with pytest.raises(Unreachable, match=said):
                outbox.send(to, status(7).frames())
        assert len(tries) == 1
        outbox._peers[to].sulks_until = 0.0
        with outbox._peers[to].lock, pytest.raises(Unreachable, match="a moment ago"):
            outbox.send(to, status(7).frames())
        with pytest.raises(Unreachable, match=r"does not greet$"):
            outbox.send(to, status(7).frames())
        assert len(tries) == 2
    outbox.close()


def test_a_process_that_may_open_no_more_files_says_so_of_the_message_and_goes_on(inbox, outbox, monkeypatch):
    def none(*args: object, **more: object) -> None:
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(outbox_module, "new_socket", none)
    with pytest.raises(Unreachable, match="Too many open files"):
        outbox.send(inbox.endpoint, status(1).frames())
    monkeypatch.undo()
    outbox.send(inbox.endpoint, status(2).frames())
    assert receive(inbox).room == 2


def test_a_peer_that_takes_messages_again_is_silent_no_longer(inbox, outbox):
    outbox.send(inbox.endpoint, status(1).frames())
    peer = outbox._peers[inbox.endpoint]
    peer.sulks(Congested("it took nothing"))
    peer.sulks_until = 0.0
    outbox.send(inbox.endpoint, status(2).frames())
    assert [receive(inbox).room for _ in range(2)] == [1, 2] and peer.sulk is None


def test_a_stranger_is_told_from_a_rank(outbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        to = Endpoint("127.0.0.1", server.getsockname()[1])

        def talk() -> None:
            for _ in range(2):
                peer, _ = server.accept()
                with peer:
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" * 4)
                    peer.recv(64)

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        assert greet(to, timeout=20) is Contact.STRANGER
        with pytest.raises(Unreachable):
            outbox.send(to, status(7).frames())
        talking.join(10)


def test_a_peer_that_restarted_at_the_same_port_gets_the_opening_again(outbox):
    opening = status(1000).frames()
    with held_port() as port:
        for life in range(3):
            inbox = Inbox("127.0.0.1", port, read_reply)
            outbox.send(inbox.endpoint, status(life).frames(), opening=opening)
            outbox.send(inbox.endpoint, status(life).frames(), opening=opening)
            assert [receive(inbox).room for _ in range(3)] == [1000, life, life]
            inbox.close()
            gone = wait_until_unreachable(outbox, Endpoint("127.0.0.1", port))
            assert "nobody listens" in gone


def test_a_connection_is_known_by_its_number_until_the_peer_hangs_up_and_a_new_one_has_another(outbox):
    with held_port() as port:
        inbox = Inbox("127.0.0.1", port, read_reply)
        line = outbox.send(inbox.endpoint, status(1).frames())
        assert line == outbox.send(inbox.endpoint, status(2).frames()) == outbox.connect(inbox.endpoint)
        assert outbox.is_open(inbox.endpoint, line)
        assert not outbox.is_open(inbox.endpoint, line + 1)
        assert not outbox.is_open(Endpoint("127.0.0.1", 9), line)
        inbox.close()
        end = time.monotonic() + 20
        while outbox.is_open(inbox.endpoint, line):
            assert time.monotonic() < end, "nobody noticed that it hung up"
            time.sleep(0.01)
        with pytest.raises(Unreachable, match="nobody listens"):
            outbox.connect(inbox.endpoint)
        again = Inbox("127.0.0.1", port, read_reply)
        other = outbox.connect(again.endpoint)
        assert other != line
        assert outbox.is_open(again.endpoint, other)
        assert again.receive(0.05) is None, "to connect says nothing"
        outbox.send(again.endpoint, status(3).frames())
        assert receive(again).room == 3
        again.close()


def wait_until_unreachable(outbox: Outbox, to: Endpoint) -> str:
    """The end of a connection is heard a moment after it happens; until then messages may be handed over in vain."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            outbox.send(to, status(9).frames())
        except Unreachable as why:
            if "nobody listens" in str(why):
                return str(why)
    raise AssertionError("the peer is gone, and messages are still taken")


def test_an_opening_that_changed_is_said_again_on_the_same_connection(inbox, outbox):
    for opening, room in ((1, 10), (1, 11), (2, 12)):
        outbox.send(inbox.endpoint, status(room).frames(), opening=status(opening).frames())
    assert [receive(inbox).room for _ in range(5)] == [1, 10, 11, 2, 12]


def test_a_peer_that_takes_nothing_is_congested_within_the_bound():
    slow = slowness()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    frozen = context.socket(zmq.PULL)
    frozen.setsockopt(zmq.RCVHWM, 1)
    frozen.setsockopt(zmq.RCVBUF, 4096)
    port = frozen.bind_to_random_port("tcp://127.0.0.1")
    outbox = Outbox(connect_seconds=20, send_seconds=0.2)
    try:
        with pytest.raises(Congested, match="frozen"):
            for _ in range(100_000):
                began = time.monotonic()
                outbox.send(Endpoint("127.0.0.1", port), [b"7", b"4", bytes(20_000)])
        assert time.monotonic() - began < 3 * slow
    finally:
        outbox.close()
        context.destroy(linger=0)


def test_more_peers_than_the_bound_push_out_the_one_longest_unused(monkeypatch, outbox):
    monkeypatch.setattr(outbox_module, "MAX_PEERS", 3)
    inboxes = [Inbox("127.0.0.1", 0, read_reply) for _ in range(5)]
    try:
        for turn in range(2):
            for inbox in inboxes:
                outbox.send(inbox.endpoint, status(turn).frames())
            assert outbox.peers == 3
        for inbox in inboxes:
            assert sorted(receive(inbox).room for _ in range(2)) == [0, 1]
    finally:
        for inbox in inboxes:
            inbox.close()


def test_what_is_closed_says_so(inbox):
    outbox = Outbox(connect_seconds=20)
    outbox.send(inbox.endpoint, status(7).frames())
    outbox.close()
    with pytest.raises(Closed):
        outbox.send(inbox.endpoint, status(7).frames())
    inbox.close()
    with pytest.raises(Closed):
        inbox.receive(0.1)


def test_a_listener_survives_what_its_handler_raises_and_ends_when_told():
    inbox = Inbox("127.0.0.1", 0, read_reply)
    heard, ticks = [], []
    both = threading.Event()

    def handle(message: Status) -> None:
        heard.append(message.room)
        if len(heard) == 2:
            both.set()
        raise RuntimeError("of the handler")

    listener = Listener(inbox, handle, lambda: ticks.append(1))
    outbox = Outbox(connect_seconds=20)
    outbox.send(inbox.endpoint, status(1).frames())
    outbox.send(inbox.endpoint, status(2).frames())
    assert both.wait(20)
    listener.stop()
    assert heard == [1, 2]
    assert ticks
    assert greet(inbox.endpoint, timeout=20) is Contact.REFUSED
    outbox.close()
