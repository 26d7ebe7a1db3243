"""A database that restarts, stalls, fills up or refuses to write: sentences instead of lost writes, then recovery."""

import asyncio
import contextlib
import os
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.audit import audit, check_ledger, check_replay, check_tables, read_database
from tests.crash.own_postgres import LosesAnswers, OwnPostgres
from tests.crash.storm import Storm
from tests.crash.wire import Answer, Client, Silent, Unanswered, engine_body, eventually, route_body, slot_path
from tests.support.machine import slowness
from tests.support.plugin import Backend
from tests.support.postgres import Unavailable
from tests.support.processes import Bootstrap

CLIENT_PATIENCE = 5.0
"""SGLang's clients give up after so many seconds."""

Make = Callable[..., Bootstrap]


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[OwnPostgres]:
    # Not below tmp_path, into which the server's user may not look.
    directory = Path(tempfile.mkdtemp(prefix="pdcp-crash-"))
    try:
        server = OwnPostgres(directory)
    except Unavailable as why:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(why))
    yield server
    server.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def proxy(own_postgres: OwnPostgres) -> Iterator[LosesAnswers]:
    made = LosesAnswers(own_postgres.port)
    yield made
    made.close()


# --- PostgreSQL ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("away", [0.0, 4.0], ids=["at-once", "away-for-4-s"])
def test_postgresql_restarts_under_load_and_nothing_acknowledged_is_lost(
    own_postgres: OwnPostgres, make_bootstrap: Make, tmp_path: Path, away: float
):
    backend = own_postgres.backend(_directory(tmp_path / "data"))
    bootstrap = make_bootstrap(backend).start()
    pid = bootstrap.pid
    storm = Storm(bootstrap.kv_port, bootstrap.engine_port, seed=7, patient=True)
    restarts = (0.0, 0.0) if not away else (away,)
    for gone in restarts:
        asyncio.run(storm.blow(1.0, lambda gone=gone: own_postgres.restart(away=gone), after=1.5))
        took = asyncio.run(recovery(bootstrap))
        print(f"recovered {took:.2f} s after the load; {storm.lost} answers lost; {storm.answers}")
        wrong = storm.wrong + asyncio.run(audit(storm, backend))
        assert not wrong, "\n".join(wrong[:20])
        assert took / slowness() < 5
    assert (bootstrap.child.exit_code, bootstrap.pid) == (None, pid)


def test_a_stand_by_outlives_a_restart_of_postgresql(own_postgres: OwnPostgres, make_bootstrap: Make, tmp_path: Path):
    backend = own_postgres.backend(_directory(tmp_path / "data"))
    leader = make_bootstrap(backend).start()
    other = make_bootstrap(Backend("postgresql", _directory(tmp_path / "other"), backend.database_url))
    other.launch().wait_standing_by()
    own_postgres.restart(away=1.0)
    # Whoever leads now, leads alone, and a death is still noticed.
    first, ports = asyncio.run(who_answers([leader, other], within=40))
    assert ports == 1
    for process in (leader, other):
        assert process.child.exit_code is None, process.log()[-2000:]
    survivor = other if first is leader else leader
    first.kill9()
    assert asyncio.run(who_answers([survivor], within=40))[0] is survivor


@pytest.mark.parametrize("away", [0.0, 3.0], ids=["at-once", "away-for-3-s"])
def test_a_commit_whose_answer_was_lost_is_neither_forgotten_nor_done_twice(
    own_postgres: OwnPostgres, proxy: LosesAnswers, make_bootstrap: Make, tmp_path: Path, away: float
):
    direct = own_postgres.backend(_directory(tmp_path / "data"))
    bootstrap = make_bootstrap(own_postgres.backend(direct.data_dir, through=proxy.port)).start()

    async def play() -> None:
        async with Client(bootstrap.kv_port) as client:
            assert (await _put(client, 0)).status == 200
            proxy.arm(b"COMMIT", away=away)
            # This one opens a launch of an instance, and is stored whatever its client hears.
            with contextlib.suppress(Unanswered):
                assert (await _put(client, 0, instance="second", tp=2)).status in (200, 503)
            assert await asyncio.to_thread(proxy.lost.wait, 20)
            for rank in (0, 1):
                body = _route(rank, tp=2)
                answer = await eventually(client, "PUT", "/route", body, instance="second", within=away + 25)
                assert answer.status == 200, answer
            looked_up = await eventually(client, "GET", slot_path(0, 1), instance="second", within=20)
            assert looked_up.json() == {"rank_ip": "203.0.113.5", "rank_port": 5001}

    asyncio.run(play())
    database = read_database(direct)
    assert [*check_ledger(database), *check_tables(database), *check_replay(database)] == []
    assert [launch[:3] for launch in database.launches if launch[0] == "second"] == [("second", 1, "current")]


def test_a_binding_whose_answer_was_lost_is_answered_alike_before_and_after_a_restart(
    own_postgres: OwnPostgres, proxy: LosesAnswers, make_bootstrap: Make, tmp_path: Path
):
    backend = own_postgres.backend(_directory(tmp_path / "data"), through=proxy.port)
    bootstrap = make_bootstrap(backend).start()

    async def bind() -> Answer | None:
        async with Client(bootstrap.kv_port) as client:
            assert (await client.ask("PUT", "/route", route_body(dp=4, ip="203.0.113.5", port=5000))).status == 200
            # The first binding of a connection carries its statement; later ones name it only.
            proxy.arm(b"controlplane_roombinding")
            try:
                return await client.ask("POST", "/register_dp_rank", {"bootstrap_room": 9, "dp_rank": 3})
            except Unanswered:
                return None

    async def found() -> dict[str, int]:
        async with Client(bootstrap.kv_port) as client:
            return (await eventually(client, "POST", "/query_dp_ranks", {"bootstrap_rooms": [9]}, within=20)).json()

    told = asyncio.run(bind())
    assert proxy.lost.wait(20)
    before = asyncio.run(found())
    bootstrap.restart()
    after = asyncio.run(found())
    assert before == after
    if told is not None and told.status != 200:
        assert after == {}, f"it was told {told.text!r}, and yet the room is bound"

    async def again() -> int:
        async with Client(bootstrap.kv_port) as client:
            body = {"bootstrap_room": 9, "dp_rank": 2}
            return (await eventually(client, "POST", "/register_dp_rank", body, within=20)).status

    assert asyncio.run(again()) == 200


def test_a_postgresql_that_became_read_only_is_a_503_and_then_forgotten(
    own_postgres: OwnPostgres, make_bootstrap: Make, tmp_path: Path
):
    backend = own_postgres.backend(_directory(tmp_path / "data"))
    bootstrap = make_bootstrap(backend).start()
    asyncio.run(_fill(bootstrap))

    def read_only(on: str) -> None:
        own_postgres.run(f"ALTER SYSTEM SET default_transaction_read_only = {on}")
        own_postgres.run("SELECT pg_reload_conf()")
        # It only asks. Once a new connection is told so, those that were open were told before.
        end = time.monotonic() + 20
        while own_postgres.run("SHOW default_transaction_read_only") != [(on,)]:
            assert time.monotonic() < end
            time.sleep(0.02)

    read_only("on")
    refused = asyncio.run(_write_everything(bootstrap, first=6000))
    read_only("off")
    _check_refusals(refused)
    assert any(isinstance(answer, Answer) for answer in refused.values()), "nobody heard a sentence"
    assert asyncio.run(recovery(bootstrap)) / slowness() < 5
    assert bootstrap.child.exit_code is None


def test_many_look_ups_of_engine_info_leave_connections_to_those_who_write(
    postgresql_backend: Backend, make_bootstrap: Make
):
    """A pool has few connections; readers that keep them would starve the lease."""
    bootstrap = make_bootstrap(postgresql_backend).start()

    async def play() -> list[int]:
        async with Client(bootstrap.engine_port) as client:
            for rank in range(60):
                body = engine_body(rank, f"203.0.113.9:{rank}", {f"w{rank}.{n}": [n, 1, 2] for n in range(200)})
                assert (await client.ask("PUT", "/register_transfer_engine_info", body, instance="a")).status == 200
        await asyncio.to_thread(bootstrap.restart)

        async def look(rank: int) -> int:
            async with Client(bootstrap.engine_port) as own:
                return (await own.ask("GET", f"/get_transfer_engine_info?rank={rank}", instance="a")).status

        statuses = await asyncio.gather(*(look(rank) for rank in range(60)))
        end = time.monotonic() + 4
        while time.monotonic() < end:
            async with Client(bootstrap.kv_port, timeout=10) as client:
                statuses.append((await _put(client, 0)).status)
            await asyncio.sleep(0.1)
        return statuses

    assert set(asyncio.run(play())) == {200}


# --- SQLite ----------------------------------------------------------------------------------------------------


def test_while_another_process_holds_the_write_lock_nothing_is_acknowledged_that_is_not_durable(
    sqlite_backend: Backend, make_bootstrap: Make
):
    bootstrap = make_bootstrap(sqlite_backend).start()
    asyncio.run(_fill(bootstrap))
    other = sqlite3.connect(sqlite_backend.data_dir / "controlplane.sqlite3", isolation_level=None, timeout=5)
    answers: list[tuple[str, float, object]] = []
    too_early: list[str] = []

    async def put(name: str, after: float, began: float, **more: object) -> None:
        """As SGLang's client: one try, a connection of its own, five seconds."""
        await asyncio.sleep(after)
        sent = time.monotonic()
        async with Client(bootstrap.kv_port, timeout=CLIENT_PATIENCE) as client:
            answer: object
            try:
                answer = await _put(client, 1, **more)
                if answer.status == 200 and not _is_stored(sqlite_backend, 5001):
                    too_early.append(name)
            except Unanswered as why:
                answer = why
        answers.append((name, time.monotonic() - sent, answer))

    async def play() -> float:
        began = time.monotonic()
        other.execute("BEGIN IMMEDIATE")
        # A client, its second, identical try, and others who come along.
        tasks = [asyncio.create_task(put("first", 0, began, tp=2)), asyncio.create_task(put("again", 0.5, began, tp=2))]
        tasks += [
            asyncio.create_task(put(f"beside {n}", 0.2, began, tp=2, instance=f"known-{n}", at_port=5100 + n))
            for n in range(8)
        ]
        tasks.append(asyncio.create_task(put("new instance", 0.3, began, instance="never-seen", at_port=5200)))
        await asyncio.sleep(6)
        other.execute("COMMIT")
        await asyncio.gather(*tasks)
        return await recovery(bootstrap)

    took = asyncio.run(play())
    other.close()
    for name, seconds, answer in sorted(answers, key=lambda each: each[1]):
        print(f"{name}: {answer} after {seconds:.2f} s")
    assert too_early == []
    for name, seconds, answer in answers:
        assert not isinstance(answer, Silent), f"{name} was left waiting for {seconds:.1f} s"
        assert isinstance(answer, Unanswered) or (answer.status == 503 and b" " in answer.body), f"{name}: {answer}"
    assert took / slowness() < 3
    assert bootstrap.child.exit_code is None


def test_a_disk_that_is_full_is_a_503_and_then_forgotten(sqlite_backend: Backend, make_bootstrap: Make):
    bootstrap = make_bootstrap(sqlite_backend).start()
    asyncio.run(_fill(bootstrap))
    hard = resource.prlimit(bootstrap.pid, resource.RLIMIT_FSIZE)[1]
    # Files may not grow beyond what the log file of the process needs: every append to a write-ahead log fails.
    resource.prlimit(bootstrap.pid, resource.RLIMIT_FSIZE, (4096, hard))
    refused = asyncio.run(_write_everything(bootstrap, first=6000))
    resource.prlimit(bootstrap.pid, resource.RLIMIT_FSIZE, (hard, hard))
    _check_refusals(refused)
    assert any(isinstance(answer, Answer) for answer in refused.values()), "nobody heard a sentence"
    assert asyncio.run(recovery(bootstrap)) / slowness() < 5
    assert bootstrap.child.exit_code is None
    bootstrap.restart()
    database = read_database(sqlite_backend)
    assert [*check_ledger(database), *check_tables(database), *check_replay(database)] == []
    assert not any(6000 <= row[7] < 6100 for row in database.ranks)


# --- What they share -------------------------------------------------------------------------------------------


async def recovery(bootstrap: Bootstrap) -> float:
    """Seconds until every kind of write is acknowledged again."""
    began = time.monotonic()
    async with Client(bootstrap.kv_port, timeout=5) as kv, Client(bootstrap.engine_port, timeout=5) as engine:
        body = route_body(ip="203.0.113.250", port=5000)
        answers = [await eventually(kv, "PUT", "/route", body, instance="recovered", within=40)]
        bind = {"bootstrap_room": 1, "dp_rank": 0}
        answers.append(await eventually(kv, "POST", "/register_dp_rank", bind, instance="recovered", within=40))
        info = engine_body(0, "203.0.113.250:5000", {"w": [1, 2, 3]})
        path = "/register_transfer_engine_info"
        answers.append(await eventually(engine, "PUT", path, info, instance="recovered", within=40))
        answers.append(await eventually(kv, "GET", "/readyz", within=40))
    assert [answer.status for answer in answers] == [200] * 4, answers
    return time.monotonic() - began


async def who_answers(processes: list[Bootstrap], *, within: float) -> tuple[Bootstrap, int]:
    """The first that acknowledges a write, and how many do a second later."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        for process in processes:
            if await _acknowledges(process):
                await asyncio.sleep(1)
                leading = [each for each in processes if await _acknowledges(each)]
                if leading:
                    return leading[0], len(leading)
        await asyncio.sleep(0.1)
    raise AssertionError(f"nobody acknowledged a write within {within} s")


async def _acknowledges(process: Bootstrap) -> bool:
    async with Client(process.kv_port, timeout=6) as client:
        with contextlib.suppress(Unanswered):
            return (await _put(client, 0)).status == 200
    return False


def _route(rank: int, *, tp: int = 1, at_port: int = 0) -> dict[str, object]:
    return route_body(tp=tp, at=(0, rank if tp > 1 else 0), ip="203.0.113.5", port=at_port or 5000 + rank)


async def _put(client: Client, rank: int, *, instance: str = "", tp: int = 1, at_port: int = 0) -> Answer:
    return await client.ask("PUT", "/route", _route(rank, tp=tp, at_port=at_port), instance=instance or "default")


async def _fill(bootstrap: Bootstrap) -> None:
    """Instances that are known before the trouble begins, so that writes to them are one batch and no more."""
    async with Client(bootstrap.kv_port) as client:
        assert (await _put(client, 0, tp=2)).status == 200
        for number in range(8):
            assert (await _put(client, 0, tp=2, instance=f"known-{number}")).status == 200


async def _write_everything(bootstrap: Bootstrap, *, first: int) -> dict[str, Answer | Unanswered]:
    """One write of every kind, all at once."""
    heard: dict[str, Answer | Unanswered] = {}

    async def ask(name: str, port: int, *request: object, instance: str = "known-1") -> None:
        async with Client(port, timeout=CLIENT_PATIENCE) as client:
            try:
                heard[name] = await client.ask(*request, instance=instance)  # type: ignore[arg-type]
            except Unanswered as why:
                heard[name] = why

    kv, engine = bootstrap.kv_port, bootstrap.engine_port
    info = engine_body(1, "203.0.113.5:1", {"w": [1, 2, 3]})
    beat = {"worker": "w", "slots": [], "lease_seconds": 60}
    room = {"bootstrap_room": first, "dp_rank": 0}
    await asyncio.gather(
        ask("put", kv, "PUT", "/route", _route(1, tp=2, at_port=first)),
        ask("put of a new instance", kv, "PUT", "/route", _route(0, at_port=first + 1), instance="never-seen"),
        ask("bind", kv, "POST", "/register_dp_rank", room),
        ask("beat", kv, "POST", "/pd/v1/heartbeats", beat),
        ask("engine put", engine, "PUT", "/register_transfer_engine_info", info),
        ask("engine put of a new instance", engine, "PUT", "/register_transfer_engine_info", info, instance="new"),
    )
    return heard


def _check_refusals(heard: dict[str, Answer | Unanswered]) -> None:
    for name, answer in heard.items():
        print(f"{name}: {answer}")
    for name, answer in heard.items():
        assert not isinstance(answer, Silent), f"{name} was left waiting"
        assert isinstance(answer, Unanswered) or (answer.status == 503 and b" " in answer.body), f"{name}: {answer}"


def _is_stored(backend: Backend, port: int) -> bool:
    return any(row[7] == port for row in read_database(backend).ranks)


def _directory(path: Path) -> Path:
    path.mkdir()
    return path
