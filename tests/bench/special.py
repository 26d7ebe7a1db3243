"""The cases that are not one load on one server: real clients, company beside, memory, restart."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psutil

from tests.bench import traffic
from tests.bench.cases import DIRECTORY, Case, Plan
from tests.bench.compare import fill, measure
from tests.bench.load import Request, Run
from tests.bench.report import Bar, Row, compared, plain
from tests.bench.servers import SQLITE, THEIRS, Ours, Server, Stable, theirs_alone, wait_for
from tests.support.processes import Child, clean_env

LOOK_UP: Case = DIRECTORY[0]
HEARTBEATS_PER_SECOND = 1000
RANKS, ROOMS, WARM_UP = 64_000, 200_000, 10_000


def memory(servers: dict[str, Server], log: Path) -> Row:
    """Resident memory with 1,024 ranks, before the load cases have grown anything.

    SGLang's is taken idle: its ranks are 3 MB of some 450.
    """
    alone = theirs_alone(log)
    theirs = psutil.Process(alone.pid).memory_info().rss / 2**20
    alone.kill9()
    ours = servers[SQLITE].processes("kv")[0].memory_info().rss / 2**20
    return plain("memory with 1,024 ranks", SQLITE, "MB", ours, theirs, bar=Bar(at_most=1 / 3), of_ratio=True)


def real_clients(stable: Stable, plan: Plan, log: Path) -> Iterator[Row]:
    """1,024 registrations by SGLang's client code until the topology is answered."""
    clients = Child([sys.executable, "-m", "tests.bench.real_client"], env=clean_env(), log=log, stdin=True)
    clients.wait_for_line("^waiting$", timeout=90)
    ours = stable.start(SQLITE)
    took: dict[str, list[float]] = {SQLITE: [], THEIRS: []}
    for at in range(plan.alternations):
        theirs = stable.start(THEIRS)
        for name, url in ((SQLITE, f"{ours.url('kv')}/i/clients-{at}"), (THEIRS, theirs.url("kv"))):
            heard = len(clients.lines)
            clients.say(url)
            took[name].append(float(clients.wait_for_line(r"^took (\S+)$", timeout=60, after=heard)[1]))
        stable.stop(theirs)
    stable.stop(ours)
    clients.kill9()
    name = "1,024 registrations by real clients to ready"
    yield plain(name, SQLITE, "s", median(took[SQLITE]), median(took[THEIRS]))


def beside(servers: dict[str, Server], plan: Plan, log: Path) -> Iterator[Row]:
    """Slot look-ups while others poll /health, and while others misbehave."""
    kinds: tuple[tuple[str, list[str], str], ...] = (
        ("heartbeats", [str(HEARTBEATS_PER_SECOND)], f"beside {HEARTBEATS_PER_SECOND:,} /health a second"),
        ("hostile", [], "beside 5,000 idle connections, slow and oversized bodies"),
    )
    for kind, arguments, name in kinds:
        runs: dict[str, list[Run]] = {SQLITE: [], THEIRS: []}
        said: dict[str, list[dict]] = {SQLITE: [], THEIRS: []}
        for _ in range(plan.alternations):
            for each in runs:
                url = servers[each].url("kv")
                command = [sys.executable, "-m", "tests.bench.beside", kind, url, *arguments]
                others = Child(command, env=clean_env(), log=log, stdin=True)
                others.wait_for_line("^going$", timeout=60)
                runs[each].append(measure(servers[each], LOOK_UP, 64, max(2, plan.seconds), again=not plan.quick))
                others.say("stop")
                said[each].append(json.loads(others.wait_for_line(r"^result (.*)$", timeout=30)[1]))
                others.kill9()
        note = f"what went on beside: ours {said[SQLITE][-1]}, SGLang's {said[THEIRS][-1]}"
        yield compared(f"slot look-up {name}", SQLITE, 64, runs[SQLITE], runs[THEIRS], Bar(), note)


def growth_and_restart(stable: Stable, plan: Plan) -> Iterator[Row]:
    """What a rank and a room cost, and how soon a killed process answers again with many of both."""
    ranks, rooms = (RANKS // 8, ROOMS // 2) if plan.quick else (RANKS, ROOMS)
    sent_rooms = list(traffic.new_rooms("/i/fleet-0", rooms))
    # What a process takes once, for its first rooms, is not what a room takes.
    first_rooms = list(traffic.new_rooms("/i/fleet-0", WARM_UP))
    ours = stable.start(SQLITE, PDCP_ROOM_TTL_SECONDS=3600)
    theirs = stable.start(THEIRS)
    assert isinstance(ours, Ours)

    before = _sizes(ours, theirs)
    fill(ours, list(traffic.first_registrations(ranks, instance="fleet")))
    fill(theirs, list(traffic.first_registrations(ranks, instance=None)))
    with_ranks = _sizes(ours, theirs)
    _fill_rooms(ours, theirs, first_rooms)
    warm = _sizes(ours, theirs)
    _fill_rooms(ours, theirs, sent_rooms)
    with_rooms = _sizes(ours, theirs)
    for what, count, start, end, bar in (
        ("rank", ranks, before, with_ranks, Bar()),
        ("room", rooms, warm, with_rooms, Bar(at_most=120)),
    ):
        grown = [(after - earlier) / count for earlier, after in zip(start, end, strict=True)]
        many = f"{count:,} {what}s"
        yield plain(f"memory per {what}, {many}", SQLITE, "bytes", grown[0], grown[2], bar=bar)
        yield plain(f"database per {what}, {many}", SQLITE, "bytes", grown[1])
    stable.stop(theirs)

    room = json.loads(sent_rooms[-1].body)["bootstrap_room"]
    query = json.dumps({"bootstrap_rooms": [room]}).encode()
    route = f"{ours.url('kv')}/i/fleet-0/route?{traffic.TOPOLOGY_QUERY}"
    first: list[float] = []
    known: list[float] = []
    for _ in range(plan.alternations):
        ours.bootstrap.kill9()
        began = time.monotonic()
        ours.bootstrap.launch()
        wait_for(route)
        first.append(time.monotonic() - began)
        rooms_url = f"{ours.url('kv')}/i/fleet-0/query_dp_ranks"
        while str(room).encode() not in wait_for(rooms_url, body=query, method="POST"):
            time.sleep(0.005)
        known.append(time.monotonic() - began)
        ours.bootstrap.wait_ready()
    stable.stop(ours)
    many = f"{ranks:,} ranks and {rooms:,} rooms"
    note = "from the start of the process; SGLang's server comes back empty"
    yield plain(f"restart to first answer, {many}", SQLITE, "s", median(first), bar=Bar(at_most=3.0), note=note)
    yield plain(f"restart to the first room, {many}", SQLITE, "s", median(known))


def _fill_rooms(ours: Server, theirs: Server, rooms: list[Request]) -> None:
    fill(ours, rooms)
    fill(theirs, [room._replace(path="/register_dp_rank") for room in rooms])


def _sizes(ours: Ours, theirs: Server) -> tuple[float, float, float]:
    """Bytes now: our memory, our database, their memory."""
    memory = [server.processes("kv")[0].memory_info().rss for server in (ours, theirs)]
    return memory[0], _database_bytes(ours.backend.data_dir), memory[1]


def _database_bytes(directory: Path) -> float:
    """Pages in use of both SQLite files, what is still in the write-ahead log included."""
    total = 0
    for path in directory.glob("*.sqlite3"):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            pragma = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PAGES)
            count, free, size = pragma
            total += (count - free) * size
        finally:
            connection.close()
    return total


PAGES = ("page_count", "freelist_count", "page_size")
