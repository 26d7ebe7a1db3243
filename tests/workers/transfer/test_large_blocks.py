"""Large blocks take a way of their own through Mooncake: they arrive whole, and end in time when the peer is gone or frozen."""

import random
import time

import pytest

from tests.support.machine import slowness
from tests.workers.transfer.faults import BOUND_SECONDS, PeerProcess
from workers.transfer.engine import open_engine
from workers.transfer.errors import TransferFailed
from workers.transfer.memory import Segment
from workers.transfer.mooncake import LARGE_BYTES

SIZE = 2 * LARGE_BYTES


@pytest.fixture
def ours():
    engine, segment = open_engine("mooncake", "127.0.0.1"), Segment(SIZE)
    engine.register(segment)
    yield engine, segment
    engine.close()
    segment.close()


def test_large_and_small_blocks_of_one_call_arrive_where_they_belong(ours):
    (engine, segment), there, theirs = ours, open_engine("mooncake", "127.0.0.1"), Segment(SIZE)
    try:
        base = there.register(theirs)
        theirs.view()[:] = random.Random(1).randbytes(SIZE)
        engine.read(
            there.session, [(segment.address, base + 100, LARGE_BYTES), (segment.address + LARGE_BYTES, base, 99)]
        )
        assert segment.view(0, LARGE_BYTES) == theirs.view(100, LARGE_BYTES)
        assert segment.view(LARGE_BYTES, 99) == theirs.view(0, 99)
        engine.write(there.session, [(segment.address, base, LARGE_BYTES)])
        assert theirs.view(0, LARGE_BYTES) == segment.view(0, LARGE_BYTES)
        with pytest.raises(TransferFailed):
            engine.read(there.session, [(segment.address, base + SIZE, LARGE_BYTES)])
    finally:
        there.close()
        theirs.close()


@pytest.mark.parametrize("kind", ["stopped", "killed"])
def test_a_peer_that_is_frozen_or_killed_after_it_answered_ends_the_call_in_time(ours, kind, tmp_path):
    engine, segment = ours
    peer = PeerProcess("engine_peer", tmp_path / "log", "mooncake", 0, SIZE)
    session, base = peer.said[0], int(peer.said[1])
    try:
        engine.read(session, [(segment.address, base, LARGE_BYTES)])
        peer.suffer(kind)
        began = time.monotonic()
        with pytest.raises(TransferFailed):
            engine.read(session, [(segment.address, base, LARGE_BYTES)])
        assert (time.monotonic() - began) / slowness() < BOUND_SECONDS
    finally:
        if kind == "stopped":
            peer.recover(kind)
        peer.child.kill9()
