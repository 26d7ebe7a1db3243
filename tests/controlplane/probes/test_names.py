"""Names that somebody told us: a slow name server makes look-ups slow, and none of those who are named ill."""

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from controlplane.domain.contact import Contact
from controlplane.domain.engine_health import Answer, Memory
from controlplane.probes import names, outgoing
from controlplane.probes.bootstrap_port import holder
from controlplane.probes.engines import Patient, stream
from controlplane.probes.names import MAX_THREADS, Unresolved, resolve
from controlplane.probes.networks import ProbePolicy, parse_networks
from controlplane.probes.outgoing import Unreachable, fetch
from controlplane.probes.sweep import Prober, Target
from tests.doubles.engine import Engine

PATIENCE = 20.0
HERE = ProbePolicy(parse_networks("127.0.0.0/8"))


class NameServer:
    """Says `127.0.0.1` for every name under `.test`, once it may; `failure` is what it says instead."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.failure: Exception | None = None
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0
        self._real = socket.getaddrinfo
        self._lock = threading.Lock()

    def __call__(self, host, *rest, **more):
        if not (isinstance(host, str) and host.endswith(".test")):
            return self._real(host, *rest, **more)
        with self._lock:
            self.asked += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self.go.wait(PATIENCE)
            if self.failure is not None:
                raise self.failure
            return self._real("127.0.0.1", *rest, **more)
        finally:
            with self._lock:
                self.at_once -= 1


@pytest.fixture
def server(monkeypatch) -> Iterator[NameServer]:
    one = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", one)
    yield one
    one.go.set()


async def until(true) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


async def test_those_beyond_the_threads_wait_their_turn_and_all_of_them_are_answered(server):
    server.go.clear()
    asking = [asyncio.create_task(resolve(f"r{number}.test")) for number in range(5 * MAX_THREADS)]
    await until(lambda: server.at_once == MAX_THREADS)
    server.go.set()
    assert set(map(tuple, await asyncio.gather(*asking))) == {("127.0.0.1",)}
    assert server.most_at_once == MAX_THREADS
    await until(lambda: names._running == 0)


async def test_whoever_gave_up_is_not_looked_up_any_more(server):
    server.go.clear()
    held = [asyncio.create_task(resolve(f"r{number}.test")) for number in range(MAX_THREADS)]
    await until(lambda: server.at_once == MAX_THREADS)
    gone = [asyncio.create_task(resolve(f"g{number}.test")) for number in range(50)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    server.go.set()
    await asyncio.gather(*held)
    assert await resolve("last.test") == ["127.0.0.1"] and server.asked == MAX_THREADS + 1
    await until(lambda: names._running == 0 and not names._waiting)


UNKNOWN = [
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), True),
    (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), False),
    (OSError("no descriptor left"), False),
    (UnicodeError("label too long"), True),
]


@pytest.mark.parametrize(("failure", "unknown"), UNKNOWN, ids=lambda value: str(value))
async def test_that_a_name_does_not_exist_is_told_from_that_nobody_can_say(server, failure, unknown):
    server.failure = failure
    with pytest.raises(Unresolved) as told:
        await resolve("a.test")
    assert told.value.unknown is unknown
    with pytest.raises(Unreachable) as refused:
        await fetch("GET", "http://a.test:30000", allowed=HERE, timeout=PATIENCE)
    assert refused.value.why == ("unknown name" if unknown else outgoing.UNRESOLVED)
    assert refused.value.sentence == "no usable answer came from a.test:30000" and not refused.value.connected
    contact = await Prober(HERE, timeout=PATIENCE).probe(Target("a.test", 41000, "127.0.0.1"))
    assert contact is (Contact.UNREACHED if unknown else Contact.UNPROBED)


def heard(engine: Engine, count: int, *, timeout: float) -> Counter[Answer]:
    known = Memory(identified_at=2e9)
    patients = [Patient(n, "decode", f"http://e{n}.test:{engine.port}", known, again=False) for n in range(count)]
    found = stream(patients, allowed=HERE, timeout=timeout)
    return Counter(finding.heard.answer for findings in found for finding in findings)


def test_many_engines_with_names_are_asked_though_each_look_up_takes_a_while(server):
    server.go.clear()
    threading.Timer(0.2, server.go.set).start()
    with Engine("decode") as engine:
        assert heard(engine, 3 * MAX_THREADS, timeout=PATIENCE) == {Answer.WELL: 3 * MAX_THREADS}


@pytest.mark.parametrize("hangs", [True, False], ids=["says nothing", "fails"])
def test_a_name_server_that_is_away_is_held_against_no_engine(server, hangs):
    server.failure = None if hangs else socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    if hangs:
        server.go.clear()
    with Engine("decode") as engine:
        assert heard(engine, 40, timeout=0.3) == {Answer.UNASKED: 40}
        server.failure = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        server.go.set()
        with contextlib.suppress(Unresolved):
            asyncio.run(resolve("z.test"))
        assert heard(engine, 2, timeout=PATIENCE) == {Answer.UNREACHED: 2}, "nobody has that name any more"


async def test_whose_name_cannot_be_looked_up_of_him_nobody_says_that_his_port_is_silent(server):
    server.failure = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert await holder("http://p.test:30000", 8998, allowed=HERE) == ("", "")


async def test_without_a_thread_nobody_could_say_and_a_child_begins_anew(server, monkeypatch):
    class Nobody(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(names.threading, "Thread", Nobody)
        with pytest.raises(Unresolved) as told:
            await resolve("a.test")
    assert not told.value.unknown and names._running == 0
    monkeypatch.setattr(names, "_running", MAX_THREADS)
    names._forget()
    assert await resolve("b.test") == ["127.0.0.1"]
