"""A prefill that is stopped, killed, restarted at its port, or silent from the start: every room of its decode ends."""

import threading
import time

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.workers.transfer import faults
from tests.workers.transfer.faults import BOUND_SECONDS, Clock, PeerProcess, moments, nothing_left_behind, silent_port
from tests.workers.transfer.ranks import Rank, assert_has, rank, whole_kv
from workers.messaging.endpoint import Endpoint
from workers.messaging.replies import Poll
from workers.transfer.decode import DecodeSide
from workers.transfer.errors import TransferError
from workers.transfer.layout import Place
from workers.transfer.receiver import Source


def side_rounds(backend: str, seed: int, rounds: int, log) -> None:
    clock = Clock()
    ended = {Poll.SUCCESS: 0, Poll.FAILED: 0}
    with nothing_left_behind():
        port = free_port()
        decode: Rank[DecodeSide] = rank(DecodeSide, faults.SHAPE, Place(), faults.DTYPE, backend, pages=64)
        peer = PeerProcess("prefill_peer", log, backend, port)
        room = 0
        for kind, after in moments(seed, rounds):
            for step in range(3):
                room += 1
                with silent_port() as silent:
                    to = Endpoint("127.0.0.1", silent if kind == "silent" and step == 1 else port)
                    if kind != "silent" or step != 1:
                        peer.child.say(str(room))
                    fault = threading.Timer(after / 10, peer.suffer, args=(kind,)) if step == 1 else None
                    if kind == "restarted" and fault is not None:
                        # A child must be started by the main thread, so the fault comes between asking and waiting.
                        fault = None
                    ended[one_room(decode, peer, to, room, kind if step == 1 else "", fault, clock)] += 1
                if step == 1:
                    peer.recover(kind)
            if decode.side.pages.held:
                with clock.call("reset"):
                    decode.side.reset()
            assert decode.side.pages.free == decode.side.pages.size
        assert ended[Poll.SUCCESS] >= 2 * rounds, ended
        peer.kill()
        decode.close()
    assert clock.longest < BOUND_SECONDS * slowness(), f"{clock.what} took {clock.longest:.1f} s"


def one_room(
    decode: Rank[DecodeSide],
    peer: PeerProcess,
    to: Endpoint,
    room: int,
    kind: str,
    fault: threading.Timer | None,
    clock: Clock,
) -> Poll:
    """One request; -> how it ended. A success is checked bit for bit, a failure is said in a sentence."""
    pages = decode.side.pages.take(faults.PAGES)
    if fault is not None:
        fault.start()
    with clock.call(f"open ({kind})"):
        receiver = decode.side.open(room, [Source(to, Place())], pages, timeout=2 if kind else 60)
    if kind == "restarted":
        peer.suffer(kind)
    with clock.call(f"wait ({kind})"):
        poll = receiver.wait(5 if kind else 60)
    if fault is not None:
        fault.join()
    if poll is Poll.SUCCESS:
        assert receiver.metadata()["output_ids"][0] == room
        assert_has(decode, whole_kv(faults.SHAPE, faults.DTYPE, faults.TOKENS, seed=room), pages)
    else:
        assert kind, f"nothing happened to the peer, and {receiver.state}"
        with pytest.raises(TransferError):
            receiver.metadata()
    with clock.call(f"close ({kind})"):
        outcome = receiver.close()
    assert poll is Poll.SUCCESS or outcome.reason
    return poll


@pytest.mark.parametrize(("backend", "rounds"), [("zmq", 4), ("mooncake", 2)])
def test_every_room_of_a_decode_ends_whatever_happens_to_its_prefill(backend, rounds, tmp_path):
    side_rounds(backend, seed=12, rounds=rounds, log=tmp_path / "peer.log")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_200_rounds_of_a_decode(backend, tmp_path):
    side_rounds(backend, seed=time.time_ns(), rounds=200, log=tmp_path / "peer.log")
