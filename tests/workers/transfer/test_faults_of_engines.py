"""An engine that is stopped, killed, restarted at its port, or silent from the start: every call of its peer ends."""

import itertools
import threading
import time

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.workers.transfer.faults import BOUND_SECONDS, Clock, PeerProcess, moments, nothing_left_behind, silent_port
from workers.transfer.engine import CALL_SECONDS, TransferEngine, open_engine
from workers.transfer.errors import BadBlocks, TransferFailed
from workers.transfer.memory import Segment

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
