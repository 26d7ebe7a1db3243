"""A peer that is stopped, killed, restarted at its port, or silent from the start: every call ends, nothing is left behind."""

import itertools
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
from workers.transfer.engine import CALL_SECONDS, TransferEngine, open_engine
from workers.transfer.errors import BadBlocks, TransferError, TransferFailed
from workers.transfer.layout import Place
from workers.transfer.memory import Segment
from workers.transfer.receiver import Source

LENGTH = 2**22
BLOCKS = [(at * 8192, at * 8192, 4096) for at in range(256)]


def calls(
    engine: TransferEngine,
    segment: Segment,
    session: str,
    base: int,
    stop: threading.Event,
    clock: Clock,
    timeout: float,
) -> None:
    """Writes and reads without a pause, until told to stop; whatever happens, as a sentence."""
    for way in itertools.cycle((engine.write, engine.read)):
        if stop.is_set():
            return
        with clock.call(f"{way.__name__} to {session}"):
            try:
                blocks = [(segment.address + local, base + remote, size) for local, remote, size in BLOCKS]
                way(session, blocks, timeout=timeout)
            except (TransferFailed, BadBlocks) as why:
                assert str(why)
                stop.wait(0.01)


def engine_rounds(backend: str, seed: int, rounds: int, log, timeout: float = CALL_SECONDS) -> None:
    clock = Clock()
    with nothing_left_behind():
        engine, segment = open_engine(backend, "127.0.0.1"), Segment(LENGTH)
        engine.register(segment)
        peer = PeerProcess("engine_peer", log, backend, free_port(), LENGTH)
        for kind, after in moments(seed, rounds):
            with silent_port() as port:
                silent = kind == "silent"
                session, base = (f"127.0.0.1:{port}", 2**45) if silent else (peer.said[0], int(peer.said[1]))
                stop = threading.Event()
                threads = [
                    threading.Thread(target=calls, args=(engine, segment, session, base, stop, clock, timeout))
                    for _ in range(2)
                ]
                for thread in threads:
                    thread.start()
                time.sleep(after)
                peer.suffer(kind)
                stop.set()
                for thread in threads:
                    thread.join(60)
                assert not any(thread.is_alive() for thread in threads), f"a call did not end when the peer was {kind}"
            peer.recover(kind)
            if not engine.alive:
                engine.reset()
            works_again(engine, segment, peer, within=30)
        peer.kill()
        engine.close()
        segment.close()
    assert clock.longest < BOUND_SECONDS * slowness(), f"{clock.what} took {clock.longest:.1f} s"


@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_a_peer_that_is_stopped_holds_up_no_transfer_to_another(backend, tmp_path):
    slow = slowness()
    engine, segment = open_engine(backend, "127.0.0.1"), Segment(LENGTH)
    engine.register(segment)
    log = tmp_path / "peers.log"
    stopped, other = (PeerProcess("engine_peer", log, backend, free_port(), LENGTH) for _ in range(2))
    try:
        for peer in (stopped, other):
            works_again(engine, segment, peer, within=30)
        stopped.suffer("stopped")
        why: list[TransferFailed] = []

        def stuck() -> None:
            try:
                engine.write(stopped.said[0], [(segment.address, int(stopped.said[1]), LENGTH)], timeout=6)
            except TransferFailed as failed:
                why.append(failed)

        waiting = threading.Thread(target=stuck)
        waiting.start()
        longest, done = 0.0, 0
        while waiting.is_alive():
            began = time.monotonic()
            engine.write(other.said[0], [(segment.address + 4096, int(other.said[1]) + 4096, 8)])
            longest, done = max(longest, time.monotonic() - began), done + 1
            time.sleep(0.01)
        assert why, "a write to a stopped process succeeded"
        assert done > 10
        assert longest < 1.5 * slow
    finally:
        for peer in (stopped, other):
            peer.kill()
        engine.close()
        segment.close()


def works_again(engine: TransferEngine, segment: Segment, peer: PeerProcess, *, within: float) -> None:
    end = time.monotonic() + within
    session, base = peer.said[0], int(peer.said[1])
    mark = time.monotonic_ns().to_bytes(8, "little")
    # Between the blocks of `calls`: what ended in doubt there may still be read and written for a while.
    gap = 4096
    while True:
        try:
            segment.view(gap, 8)[:] = mark
            engine.write(session, [(segment.address + gap, base + gap, 8)])
            engine.read(session, [(segment.address + gap + 16, base + gap, 8)])
        except TransferFailed as why:
            assert time.monotonic() < end, f"the peer is back, and still {why}"
            time.sleep(0.05)
            continue
        assert segment.view(gap + 16, 8) == mark
        return


@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_every_call_of_an_engine_ends_whatever_happens_to_its_peer(backend, tmp_path):
    engine_rounds(backend, seed=11, rounds=4, log=tmp_path / "peer.log", timeout=3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("backend", ["zmq", "mooncake"])
def test_200_rounds_of_an_engine(backend, tmp_path):
    engine_rounds(backend, seed=time.time_ns(), rounds=200, log=tmp_path / "peer.log")


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
