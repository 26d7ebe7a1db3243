"""Two processes on one database: one leads, the other stands by; never two writers, and never an answer from the past."""

import asyncio
import itertools
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.audit import check_ledger, check_replay, check_tables, read_database, reading
from tests.crash.hammer import Acknowledged, Hammer
from tests.crash.wire import HOST, Client, engine_body, eventually, route_body, slot_path
from tests.support.machine import slowness
from tests.support.plugin import Backend
from tests.support.ports import is_open
from tests.support.processes import Bootstrap

# The usual lease, and one that has not run out when a death that was noticed otherwise is long over.
LEASE_SECONDS, LASTING_LEASE_SECONDS = 3.0, 40.0
# In seconds of a machine that does nothing else: the lease and one more; and what a death that is noticed takes.
TAKE_OVER_SECONDS = 4.0
AT_ONCE_SECONDS = 1.5
PATIENCE_SECONDS = 6.0
FROZEN_SECONDS = 10.0
# What a frozen leader was asked to store; nobody else uses them.
LATE_HOST, LATE_ROOM = "203.0.113.213", 2**60 + 7


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes with ports of their own, as on two hosts."""

    backend: Backend
    leader: Bootstrap
    other: Bootstrap

    @property
    def ports(self) -> list[int]:
        return [self.leader.kv_port, self.other.kv_port]


# Where a death is seen by the file lock, and where the lease has to run out.
both_ways = pytest.mark.parametrize("pair", ["sqlite-one-host", "postgresql-two-hosts"], indirect=True)
EVERYWHERE = ["sqlite-one-host", "postgresql-one-host", "postgresql-two-hosts"]


@pytest.fixture(params=EVERYWHERE)
def pair(request: pytest.FixtureRequest, make_bootstrap: Callable[..., Bootstrap], tmp_path: Path) -> Pair:
    """One leads, one stands by."""
    return _pair(request, make_bootstrap, tmp_path, lease=LEASE_SECONDS)


@pytest.fixture(params=EVERYWHERE)
def lasting(request: pytest.FixtureRequest, make_bootstrap: Callable[..., Bootstrap], tmp_path: Path) -> Pair:
    """As `pair`; but whoever takes over here does not do so because a lease ran out."""
    return _pair(request, make_bootstrap, tmp_path, lease=LASTING_LEASE_SECONDS)


def _pair(
    request: pytest.FixtureRequest, make_bootstrap: Callable[..., Bootstrap], tmp_path: Path, *, lease: float
) -> Pair:
    kind, _, hosts = request.param.partition("-")
    backend: Backend = request.getfixturevalue(f"{kind}_backend")
    other = backend
    if hosts == "two-hosts":
        other = Backend(kind, tmp_path / "data-of-the-other-host", backend.database_url)
        other.data_dir.mkdir()
    first, second = (make_bootstrap(each, PDCP_LEASE_SECONDS=lease) for each in (backend, other))
    first.start()
    second.launch().wait_standing_by()
    return Pair(backend, first, second)


@both_ways
def test_a_stand_by_listens_nowhere(pair: Pair):
    assert pair.other.child.lines == [f"bootstrap standing by pid={pair.other.pid}"]
    assert not is_open(pair.other.kv_port)
    assert not is_open(pair.other.engine_port)
    assert asyncio.run(_put(pair.leader, "default", 5000)) == 200


@pytest.mark.parametrize("pair", ["postgresql-two-hosts"], indirect=True)
def test_the_stand_by_takes_over_after_kill_9_and_never_do_both_acknowledge(pair: Pair):
    assert _kill_the_leader(pair) / slowness() <= TAKE_OVER_SECONDS


@pytest.mark.parametrize("lasting", ["sqlite-one-host", "postgresql-one-host"], indirect=True)
def test_on_one_host_it_does_not_wait_for_the_lease_to_run_out(lasting: Pair):
    assert _kill_the_leader(lasting) / slowness() <= AT_ONCE_SECONDS


def _kill_the_leader(pair: Pair) -> float:
    """How long it takes until the other one acknowledges; what must hold meanwhile and afterwards is checked."""

    async def play() -> tuple[Hammer, float]:
        async with Hammer(pair.ports) as hammer:
            await hammer.first_of(0, within=40)
            await asyncio.sleep(0.7)
            killed_at = time.monotonic()
            pair.leader.kill9()
            first = await hammer.first_of(1, within=40)
            # The killed one comes back, and finds that it is not needed.
            pair.leader.launch()
            await asyncio.sleep(1.5)
        return hammer, first.at - killed_at

    hammer, took = asyncio.run(play())
    print(f"take-over took {took:.2f} s")
    assert hammer.reigns() == [0, 1]
    assert hammer.refused == []
    pair.leader.wait_standing_by()
    assert pair.leader.child.lines == [f"bootstrap standing by pid={pair.leader.pid}"]
    check_stored(pair, hammer, leaders=2)
    return took


@pytest.mark.parametrize("lasting", ["sqlite-one-host", "postgresql-two-hosts"], indirect=True)
def test_sigterm_hands_over_at_once(lasting: Pair):
    pair = lasting

    async def play() -> tuple[Hammer, float]:
        async with Hammer(pair.ports) as hammer:
            await hammer.first_of(0, within=40)
            await asyncio.sleep(0.5)
            asked_at = time.monotonic()
            assert await asyncio.to_thread(pair.leader.terminate) == 0
            first = await hammer.first_of(1, within=40)
        return hammer, first.at - asked_at

    hammer, took = asyncio.run(play())
    print(f"hand-over took {took:.2f} s")
    assert took / slowness() <= AT_ONCE_SECONDS
    assert hammer.reigns() == [0, 1]
    check_stored(pair, hammer, leaders=2)


def test_leadership_stays_where_it_is_however_often_it_was_handed_over(lasting: Pair):
    """A process that stands by again must not take the living leader for a dead one."""
    pair = lasting
    leads, stands_by = pair.leader, pair.other
    for turn in range(3):
        said = len(stands_by.child.lines)
        assert leads.terminate() == 0
        stands_by.child.wait_for_line("^bootstrap ready", timeout=PATIENCE_SECONDS, after=said)
        leads.launch().wait_standing_by()
        leads, stands_by = stands_by, leads
        time.sleep(0.7)
        assert [line.split()[1] for line in stands_by.child.lines] == ["standing"]
        assert asyncio.run(_put(leads, "default", 5000 + turn)) == 200
    assert _token(pair.backend) == 4


@both_ways
def test_of_two_stand_bys_exactly_one_takes_over(pair: Pair, make_bootstrap: Callable[..., Bootstrap]):
    third = make_bootstrap(pair.backend)
    third.launch().wait_standing_by()

    async def play() -> Hammer:
        async with Hammer([*pair.ports, third.kv_port]) as hammer:
            await hammer.first_of(0, within=40)
            pair.leader.kill9()
            async with asyncio.timeout(40):
                while not any(each.by for each in hammer.acknowledged):
                    await asyncio.sleep(0.01)
            await asyncio.sleep(2)
        return hammer

    hammer = asyncio.run(play())
    assert hammer.reigns() in ([0, 1], [0, 2])
    check_stored(pair, hammer, leaders=2)


@both_ways
def test_a_leader_that_was_frozen_answers_nothing_writes_nothing_and_stands_by(pair: Pair):
    async def play() -> tuple[Hammer, dict[str, bytes], float]:
        assert await _put(pair.leader, "default", 5000) == 200
        memoed = f"GET {slot_path(0, 0)} HTTP/1.1\r\nHost: {HOST}:{pair.leader.kv_port}\r\n\r\n".encode()
        looking = [await asyncio.open_connection(HOST, pair.leader.kv_port) for _ in range(2)]
        for reader, writer in looking:
            for _ in range(3):
                # The second of two equal requests is answered from raw memory already.
                writer.write(memoed)
                assert b'"rank_port": 5000' in await reader.read(4096)
        async with Hammer([pair.other.kv_port]) as hammer:
            frozen_at = time.monotonic()
            pair.leader.freeze()
            took = (await hammer.first_of(0, within=40)).at - frozen_at
            # The truth moves on: the rank has another port now.
            async with Client(pair.other.kv_port) as client:
                moved = route_body(ip="203.0.113.1", port=6000)
                assert (await client.ask("PUT", "/route", moved, instance="default")).status == 200
            pending = {"memoed": looking[0], "memoed too": looking[1]}
            pending["memoed"][1].write(memoed)
            for name, port, request in _requests(pair.leader):
                # A frozen process's kernel still accepts connections.
                pending[name] = await asyncio.open_connection(HOST, port)
                pending[name][1].write(request)
            await asyncio.sleep(frozen_at + FROZEN_SECONDS - time.monotonic())
            pair.leader.thaw()
            # And one that asks only now, on a connection that was open all the time.
            pending["memoed too"][1].write(memoed)
            heard = {name: await _until_closed(reader) for name, (reader, _) in pending.items()}
            await asyncio.sleep(2)
        return hammer, heard, took

    said = len(pair.leader.child.lines)
    hammer, heard, took = asyncio.run(play())
    print(f"take-over took {took:.2f} s")
    assert took / slowness() <= TAKE_OVER_SECONDS
    assert heard == dict.fromkeys(heard, b"")
    pair.leader.child.wait_for_line("^bootstrap standing by", timeout=20, after=said)
    assert pair.leader.child.lines[said:] == [f"bootstrap standing by pid={pair.leader.pid}"]
    assert not is_open(pair.leader.kv_port)
    assert not is_open(pair.leader.engine_port)
    _check_uninterrupted(hammer.acknowledged)
    check_stored(pair, hammer, leaders=2)
    late = [event for event in read_database(pair.backend).events if LATE_HOST in event[3] or event[2] == "too-late"]
    assert late == []
    assert asyncio.run(_rooms(pair.other, [LATE_ROOM])) == {}


def test_a_killed_leader_serves_again_on_its_ports_within_four_seconds(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap]
):
    bootstrap = make_bootstrap(backend).start()
    took = []
    for _ in range(3):
        assert asyncio.run(_put(bootstrap, "default", 5000)) == 200
        began = time.monotonic()
        bootstrap.kill9()
        bootstrap.launch()

        async def first_answer() -> int:
            async with Client(bootstrap.kv_port) as client:
                return (await eventually(client, "GET", "/health", within=40)).status

        assert asyncio.run(first_answer()) == 200
        took.append((time.monotonic() - began) / slowness())
        bootstrap.wait_ready()
    print("kill to first answer:", " ".join(f"{seconds:.2f} s" for seconds in took))
    assert max(took) <= 4, took
    assert bootstrap.child.lines[:1] == [
        f"bootstrap ready kv={HOST}:{bootstrap.kv_port} engine={HOST}:{bootstrap.engine_port} pid={bootstrap.pid}"
    ]


async def _put(bootstrap: Bootstrap, instance: str, port: int) -> int:
    async with Client(bootstrap.kv_port) as client:
        body = route_body(ip="203.0.113.1", port=port)
        return (await client.ask("PUT", "/route", body, instance=instance)).status


async def _rooms(bootstrap: Bootstrap, rooms: list[int]) -> dict[str, int]:
    async with Client(bootstrap.kv_port) as client:
        answer = await client.ask("POST", "/query_dp_ranks", {"bootstrap_rooms": rooms}, instance="hammered")
        return answer.json()


def _requests(bootstrap: Bootstrap) -> list[tuple[str, int, bytes]]:
    """One request of every kind that a deposed leader must not answer."""
    put = route_body(ip=LATE_HOST, port=7777)
    info = engine_body(7777, f"{LATE_HOST}:7777", {"w": [1, 2, 3]})
    kv, engine = bootstrap.kv_port, bootstrap.engine_port
    return [
        ("health", kv, _raw("GET", "/health", b"", "default")),
        ("livez", kv, _raw("GET", "/livez", b"", "default")),
        ("put", kv, _raw("PUT", "/route", put, "default")),
        ("put of a new instance", kv, _raw("PUT", "/route", put, "too-late")),
        ("bind", kv, _raw("POST", "/register_dp_rank", {"bootstrap_room": LATE_ROOM, "dp_rank": 0}, "hammered")),
        ("query", kv, _raw("POST", "/query_dp_ranks", {"bootstrap_rooms": [1]}, "hammered")),
        ("engine health", engine, _raw("GET", "/health", b"", "default")),
        ("engine put", engine, _raw("PUT", "/register_transfer_engine_info", info, "default")),
    ]


def _raw(method: str, path: str, body: object, instance: str) -> bytes:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nX-PD-Instance: {instance}\r\nContent-Length: {len(payload)}\r\n\r\n"
    return head.encode() + payload


async def _until_closed(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(20):
            return await reader.read(-1)
    except ConnectionError:
        return b""
    except TimeoutError:
        return b"(still open)"


def _check_uninterrupted(acknowledged: list[Acknowledged]) -> None:
    """Whoever took over goes on: the thawed one disturbs nobody."""
    pauses = [b.at - a.at for a, b in itertools.pairwise(acknowledged)]
    assert max(pauses) / slowness() < 1.5, f"the new leader was silent for {max(pauses):.2f} s"


def check_stored(pair: Pair, hammer: Hammer, *, leaders: int) -> None:
    """Everything acknowledged is in the tables, in one ledger, under as many fencing tokens as there were leaders."""
    database = read_database(pair.backend)
    wrong = [*check_ledger(database), *check_tables(database), *check_replay(database)]
    assert not wrong, "\n".join(wrong[:10])
    ports = {row[7] for row in database.ranks}
    lost = [each for each in hammer.acknowledged if each.port is not None and each.port not in ports]
    # A row that moved was overwritten by the next acknowledged one; its event stays.
    told = " ".join(event[3] for event in database.events if event[1] == "rank.registered")
    assert [each for each in lost if f'"port":{each.port},' not in told] == []
    assert _token(pair.backend) == leaders
    leads = pair.other if pair.other.child.lines[-1].startswith("bootstrap ready") else None
    rooms = [each.room for each in hammer.acknowledged if each.room is not None]
    if leads is not None and rooms:
        assert set(asyncio.run(_rooms(leads, rooms))) == {str(room) for room in rooms}


def _token(backend: Backend) -> int:
    with reading(backend) as read:
        return int(read("SELECT token FROM controlplane_lease")[0][0])


def test_who_took_over_and_waits_for_its_port_still_stops_when_it_is_asked(sqlite_backend, make_bootstrap):
    leader = make_bootstrap(sqlite_backend, PDCP_LEASE_SECONDS=1).start()
    with socket.create_server((HOST, 0)) as stranger:
        other = make_bootstrap(sqlite_backend, kv_port=stranger.getsockname()[1], PDCP_LEASE_SECONDS=1)
        other.launch().wait_standing_by()
        leader.kill9()
        end = time.monotonic() + 30
        while "waiting_for_port" not in other.log():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert other.terminate() == 0
