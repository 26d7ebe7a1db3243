"""Every backend that moves bytes, by the same tests; Mooncake for real, over TCP on this host's CPU."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.support.processes import ROOT, clean_env
from workers.transfer.engine import open_engine
from workers.transfer.errors import BadBlocks, EngineLost, NotInstalled, PeerSilent, TransferFailed
from workers.transfer.memory import Borrowed, Segment
from workers.transfer.mooncake import MooncakeEngine

REAL = ["zmq", "mooncake"]


@pytest.fixture
def pair(request):
    """Two engines of a backend on a host, each with a segment of 4 MiB registered."""
    backend, host = request.param
    engines = [open_engine(backend, host) for _ in range(2)]
    segments = [Segment(2**22) for _ in range(2)]
    yield [(engine, segment, engine.register(segment)) for engine, segment in zip(engines, segments, strict=True)]
    for engine in engines:
        engine.close()
    for segment in segments:
        segment.close()


def on(*backends: str, host: str = "127.0.0.1"):
    cases = [(backend, host) for backend in backends]
    return pytest.mark.parametrize("pair", cases, indirect=True, ids=[f"{backend}-{host}" for backend, _ in cases])


def scattered(seed: int, count: int, size: int, length: int) -> list[tuple[int, int]]:
    """`count` pairs of places, none of them twice on either side."""
    rng = random.Random(seed)
    places = range(0, size - length, length)
    return list(zip(rng.sample(places, count), rng.sample(places, count), strict=True))


@on(*REAL)
@pytest.mark.parametrize(("count", "length"), [(1, 1), (1, 2**21), (1500, 512), (1024, 1000)])
def test_blocks_arrive_where_they_belong_and_nothing_else_changes(pair, count, length):
    (here, ours, _), (there, theirs, base) = pair
    ours.view()[:] = random.Random(1).randbytes(ours.length)
    expected = bytearray(theirs.length)
    places = scattered(2, count, ours.length, length)
    for local, remote in places:
        expected[remote : remote + length] = ours.view(local, length)
    here.write(there.session, [(ours.address + local, base + remote, length) for local, remote in places])
    assert theirs.view() == expected


@on(*REAL)
def test_what_is_read_is_what_the_peer_has(pair):
    (here, ours, _), (there, theirs, base) = pair
    theirs.view()[:] = random.Random(3).randbytes(theirs.length)
    places = scattered(4, 700, ours.length, 4096 // 2)
    here.read(there.session, [(ours.address + local, base + remote, 2048) for local, remote in places])
    for local, remote in places:
        assert ours.view(local, 2048) == theirs.view(remote, 2048)


@on(*REAL, host="::1")
def test_ipv6_is_the_same(pair):
    (here, ours, _), (there, theirs, base) = pair
    assert there.session.startswith("[::1]:")
    ours.view(0, 5)[:] = b"hello"
    here.write(there.session, [(ours.address, base + 100, 5)])
    assert theirs.view(100, 5) == b"hello"


@on(*REAL)
def test_memory_that_is_not_registered_is_not_touched_on_either_side(pair):
    (here, ours, own_base), (there, theirs, base) = pair
    with pytest.raises(BadBlocks):
        here.write(there.session, [(ours.address + ours.length - 4, base, 8)])
    with pytest.raises((BadBlocks, TransferFailed)):
        here.write(there.session, [(ours.address, base + theirs.length - 4, 8)])
    with pytest.raises((BadBlocks, TransferFailed)):
        here.read(there.session, [(ours.address, base + 2**40, 8)])
    assert theirs.view() == bytes(theirs.length)
    assert ours.view() == bytes(ours.length)
    with pytest.raises(BadBlocks, match="overlaps"):
        here.register(ours)
    assert here.base(ours) == own_base


@on(*REAL)
def test_a_peer_that_is_not_there_is_said_soon_and_nothing_was_begun(pair):
    (here, ours, _), _ = pair
    slow = slowness()
    began = time.monotonic()
    with pytest.raises(PeerSilent) as why:
        here.write(f"127.0.0.1:{free_port()}", [(ours.address, 4096, 8)])
    assert why.value.settled
    assert time.monotonic() - began < 3 * slow
    assert not here.probe(f"127.0.0.1:{free_port()}")
    assert not here.probe("no session")


@on(*REAL)
def test_after_a_reset_the_old_session_is_gone_and_the_new_one_serves_the_same_memory(pair):
    (here, ours, _), (there, theirs, base) = pair
    before = there.session
    assert here.probe(before)
    after = there.reset()
    assert after == there.session != before
    assert there.alive
    with pytest.raises((PeerSilent, TransferFailed)):
        here.write(before, [(ours.address, base, 8)])
    ours.view(0, 8)[:] = b"new life"
    here.write(after, [(ours.address, there.base(theirs) + 8, 8)])
    assert theirs.view(8, 8) == b"new life"
    there.unregister(theirs)
    with pytest.raises((BadBlocks, TransferFailed)):
        here.write(after, [(ours.address, base, 8)])


@on(*REAL)
def test_a_closed_engine_says_so(pair):
    (here, ours, _), (there, _, base) = pair
    here.close()
    here.close()
    with pytest.raises(EngineLost):
        here.write(there.session, [(ours.address, base, 8)])


@on("mooncake")
def test_an_engine_whose_process_was_killed_says_so_and_starts_again(pair):
    (here, ours, _), (there, theirs, base) = pair
    os.kill(here.pid, signal.SIGKILL)
    with pytest.raises(EngineLost, match="ended by itself"):
        here.write(there.session, [(ours.address, base, 8)])
    assert not here.alive
    here.reset()
    ours.view(0, 3)[:] = b"abc"
    here.write(there.session, [(ours.address, base, 3)])
    assert theirs.view(0, 3) == b"abc"


def test_the_fake_backend_moves_nothing_and_checks_what_it_is_asked():
    engine, segment = open_engine("fake", "127.0.0.1"), Segment(100)
    base = engine.register(segment)
    engine.write("10.0.0.1:5", [(segment.address, 0, 100)])
    engine.read("10.0.0.1:5", [(base, 0, 100)])
    assert segment.view() == bytes(100)
    with pytest.raises(BadBlocks):
        engine.write("10.0.0.1:5", [(segment.address, 0, 101)])
    engine.close()
    with pytest.raises(EngineLost):
        engine.write("10.0.0.1:5", [(segment.address, 0, 100)])


def test_an_unknown_backend_is_refused_with_those_that_exist():
    with pytest.raises(NotInstalled, match="mooncake, zmq, fake"):
        open_engine("nixl", "127.0.0.1")


IN_ONE_PROCESS = """
import ctypes, os
from workers.transfer.errors import BadBlocks, EngineLost, PeerSilent
from workers.transfer.memory import Borrowed
from workers.transfer.mooncake import MooncakeEngine

class Tensor:  # memory that no other process maps
    def __init__(self): self.bytes = (ctypes.c_char * 4096)()
    def region(self): return Borrowed(ctypes.addressof(self.bytes), 4096, self)

here, there = MooncakeEngine("127.0.0.1"), MooncakeEngine("127.0.0.1")
ours, theirs = Tensor(), Tensor()
own, far = ours.region(), theirs.region()
here.register(own)
base = there.register(far)
ours.bytes[:5] = b"first"
here.write(there.session, [(own.address, base + 10, 5)])
assert theirs.bytes[10:15] == b"first"
before = there.session
after = there.reset()
assert after != before and there.base(far) == far.address
try:
    here.write(before, [(own.address, base, 5)])
    raise SystemExit("the old session still takes bytes")
except PeerSilent as why:
    print(why)
ours.bytes[:5] = b"again"
here.write(after, [(own.address, base + 20, 5)])
assert theirs.bytes[20:25] == b"again"
try:
    here.write(after, [(own.address + 4095, base, 5)])
    raise SystemExit("memory that is not registered was sent")
except BadBlocks as why:
    print(why)
child = os.fork()
if not child:
    try:
        here.write(after, [(own.address, base, 5)])
    except EngineLost as why:
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
here.close()
there.close()
try:
    here.write(after, [(own.address, base, 5)])
except EngineLost:
    os._exit(0)
"""


def test_mooncake_in_one_process_moves_memory_of_that_process_and_refuses_a_fork():
    """As on a host with GPUs, whose memory cannot be given to a child. Run apart: a crash of the library is a failure here."""
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS],
        env=clean_env(), cwd=ROOT, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_engine_of_a_child_takes_no_memory_that_it_cannot_map():
    engine, segment = open_engine("mooncake", "127.0.0.1"), Segment(4096)
    with pytest.raises(BadBlocks, match="segments only"):
        engine.register(Borrowed(segment.address, 4096))
    assert engine.register(segment) > 0
    engine.close()


def test_what_is_missing_for_mooncake_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "mooncake.engine", None)
    with pytest.raises(NotInstalled, match="libibverbs1"):
        MooncakeEngine("127.0.0.1")
