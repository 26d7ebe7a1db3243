"""Public reports: what the ranks' sockets take, and rooms between a prefill and a decode rank."""

import contextlib
import os
import pickle
import socket
import struct
import threading
import time

import psutil
import pytest
import torch
import zmq

from tests.support.machine import slowness
from tests.workers.transfer.ranks import assert_has, put_share, rank, whole_kv
from workers.messaging.endpoint import Endpoint
from workers.messaging.outbox import Outbox
from workers.messaging.replies import Poll, Status
from workers.messaging.requests import KvRequest, Registration
from workers.transfer.decode import DecodeSide
from workers.transfer.errors import RoomTaken
from workers.transfer.layout import Place
from workers.transfer.pool import shape_of
from workers.transfer.prefill import PrefillSide
from workers.transfer.receiver import Source

DTYPE = torch.float16
SHAPE = shape_of(layers=2, heads=2, head_dim=8, dtype=DTYPE, page_size=4)
TOKENS, PAGES = 8, 2


@contextlib.contextmanager
def pair(backend: str = "zmq", **more):
    prefill = rank(PrefillSide, SHAPE, Place(), DTYPE, backend, **more)
    decode = rank(DecodeSide, SHAPE, Place(), DTYPE, backend, **more)
    try:
        yield prefill, decode
    finally:
        decode.close()
        prefill.close()


def ask(decode, prefill, room, **more):
    pages = decode.side.pages.take(PAGES)
    return decode.side.open(room, [Source(prefill.side.endpoint, Place())], pages, **{"timeout": 60, **more})


def serve(prefill, decode, room):
    """One request from end to end, checked."""
    whole = whole_kv(SHAPE, DTYPE, TOKENS, seed=room % 1000)
    receiver, sender = ask(decode, prefill, room), prefill.side.open(room)
    assert sender.wait_until_asked(60) is Poll.WAITING_FOR_INPUT
    pages = prefill.side.pages.take(PAGES)
    put_share(prefill, whole, pages, 0, TOKENS)
    sender.finish(pages)
    assert receiver.wait(60) is Poll.SUCCESS, receiver.state
    assert_has(decode, whole, receiver.pages)
    receiver.close()
    assert sender.wait(60) is Poll.SUCCESS
    sender.close()


class Marker:
    """What a pickle of it does when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_SEC_03_nothing_that_a_rank_receives_is_unpickled_and_it_serves_on(backend, tmp_path):
    marker = tmp_path / "marker"
    payload = pickle.dumps(Marker(marker))
    others = listening_here()
    with pair(backend) as (prefill, decode):
        listening = listening_here() - others
        endpoints = [prefill.side.endpoint, decode.side.endpoint]
        assert {("127.0.0.1", endpoint.port) for endpoint in endpoints} <= listening
        if backend == "zmq":
            # Mooncake listens on all interfaces, whatever it is told: docs/security.md says so.
            assert {host for host, _ in listening} == {"127.0.0.1"}
        context = zmq.Context()
        for endpoint in endpoints:
            push = context.socket(zmq.PUSH)
            push.setsockopt(zmq.LINGER, 1000)
            push.connect(endpoint.tcp)
            for frames in hostile(payload, endpoint):
                push.send_multipart(frames)
            push.close()
        for _, port in listening:
            for raw in (payload, struct.pack("<Q", len(payload)) + payload, bytes(2000)):
                with socket.create_connection(("127.0.0.1", port)) as peer, contextlib.suppress(OSError):
                    peer.sendall(raw)
        end = time.monotonic() + 60
        while prefill.side._inbox.refused < 4 or decode.side._inbox.refused < 4:
            assert time.monotonic() < end, "the hostile messages did not arrive"
            time.sleep(0.01)
        serve(prefill, decode, 2**62 + 1)
        context.destroy(linger=0)
    assert not marker.exists()
    pickle.loads(payload)
    assert marker.exists(), "the payload does what it is feared for"


def listening_here() -> set[tuple[str, int]]:
    """Where this process and its children listen."""
    return {
        (each.laddr.ip, each.laddr.port)
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }


def hostile(payload: bytes, endpoint: Endpoint) -> list[list[bytes]]:
    request = KvRequest(room=7, endpoint=endpoint, session="127.0.0.1:1", required_dst_info_num=1, pages=(1,)).frames()
    registration = Registration(
        endpoint=endpoint,
        session="127.0.0.1:1",
        kv_pointers=(1,),
        aux_pointers=(1,),
        tp_rank=0,
        tp_size=1,
        kv_item_len=1,
    ).frames()
    return [
        [payload],
        [payload] * 12,
        [*request[:3], payload, *request[4:]],
        [*registration[:7], payload, *registration[8:]],
        [b"AUX_DATA", b"7", b"0", b"0", struct.pack(">I", len(payload)), payload],
        [b"ABORT", payload],
    ]


def test_ROOM_01_a_second_request_for_an_active_room_gets_an_error_and_the_first_goes_on():
    with pair() as (prefill, decode):
        receiver, sender = ask(decode, prefill, 42), prefill.side.open(42)
        refused = []
        for _ in range(3):
            pages = decode.side.pages.take(PAGES)
            with pytest.raises(RoomTaken, match="room 42 is in use"):
                decode.side.open(42, [Source(prefill.side.endpoint, Place())], pages)
            decode.side.pages.give_back(pages)
            with pytest.raises(RoomTaken, match="room 42 is in use"):
                prefill.side.open(42)
            refused.append(True)
        assert sender.wait_until_asked(60) is Poll.WAITING_FOR_INPUT
        sender.finish(prefill.side.pages.take(PAGES), metadata={"output_ids": [9]})
        assert receiver.wait(60) is Poll.SUCCESS
        assert receiver.metadata()["output_ids"][0] == 9
        receiver.close()
        sender.close()


def test_ROOM_07_a_room_that_is_used_again_inherits_no_failure_and_hears_no_late_one():
    with pair() as (prefill, decode):
        first, sender = ask(decode, prefill, 7), prefill.side.open(7)
        assert sender.wait_until_asked(60) is Poll.WAITING_FOR_INPUT
        sender.abort("the first use failed")
        assert first.wait(60) is Poll.FAILED
        attempt = first.state.attempt
        first.close()
        sender.close()
        second = ask(decode, prefill, 7)
        late = Status(room=7, poll=Poll.FAILED, prefill_rank=0, reason="the first use failed", attempt=attempt)
        unknown = Status(room=8, poll=Poll.FAILED, prefill_rank=0)
        outbox = Outbox()
        heard = decode.side.late
        for message in (late, unknown):
            outbox.send(decode.side.endpoint, message.frames())
        end = time.monotonic() + 60
        while decode.side.late < heard + 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert not second.state.is_over
        again = prefill.side.open(7)
        assert again.wait_until_asked(60) is Poll.WAITING_FOR_INPUT
        again.finish(prefill.side.pages.take(PAGES))
        assert second.wait(60) is Poll.SUCCESS, second.state
        second.close()
        again.close()
        outbox.close()


def test_HLT_10_aborts_of_the_prefill_reach_the_decode_within_a_second_and_free_its_slots():
    rooms = range(1, 201)
    with pair(pages=2 * len(rooms) + 2, slots=len(rooms) + 1) as (prefill, decode):
        slow = slowness()
        receivers = {room: ask(decode, prefill, room, timeout=300) for room in rooms}
        senders = {room: prefill.side.open(room) for room in rooms}
        aborted = {room for room in rooms if room % 10}
        took: list[float] = []

        def told(room: int) -> None:
            began = time.monotonic()
            senders[room].abort("a storm of aborts")
            assert receivers[room].wait(60) is Poll.FAILED
            took.append(time.monotonic() - began)
            receivers[room].close()
            senders[room].close()

        for room in sorted(aborted):
            assert senders[room].wait_until_asked(60) is Poll.WAITING_FOR_INPUT
        threads = [
            threading.Thread(target=lambda own=own: [told(room) for room in own])
            for own in (sorted(aborted)[start::4] for start in range(4))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert len(took) == len(aborted)
        assert max(took) < 2.0 * slow
        # Its slots are free at once, for new requests, and those that were not aborted go on.
        serve(prefill, decode, 1000)
        for room in sorted(set(rooms) - aborted):
            assert senders[room].wait_until_asked(60) is Poll.WAITING_FOR_INPUT
            senders[room].finish(prefill.side.pages.take(PAGES))
            assert receivers[room].wait(60) is Poll.SUCCESS
            receivers[room].close()
            senders[room].close()
        end = time.monotonic() + 60
        while decode.side.pages.free < decode.side.pages.size:
            assert time.monotonic() < end, "pages stay in quarantine"
            time.sleep(0.01)
