"""After a crash: is everything there that was acknowledged, and does what is there make sense?"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.crash.book import MISSING
from tests.crash.storm import Attempt, Storm
from tests.crash.wire import Answer, Client, eventually, settled, slot_path
from tests.support.plugin import Backend

LAUNCHES = """
SELECT i.name, l.number, l.state, l.dp, l.cp, l.tp, l.pp, l.completed_at, l.ended_at
FROM controlplane_launch l JOIN controlplane_instance i ON i.id = l.instance_id"""
RANKS = """
SELECT i.name, r.launch, r.dp, r.cp, r.tp, r.pp, r.ip, r.port, r.seen_at, r.left_at
FROM controlplane_rank r JOIN controlplane_instance i ON i.id = r.instance_id"""
ENGINES = """
SELECT i.name, e.rank, e.session, e.digest, e.state
FROM controlplane_engineinfo e JOIN controlplane_instance i ON i.id = e.instance_id"""

# For how long a database that is back may still cost somebody an answer.
PATIENCE_SECONDS = 15.0
Slot = tuple[int, int, int, int]
Address = tuple[str, int]


class Database:
    """The facts as they lie in the tables, read in one transaction."""

    def __init__(self, read: Any) -> None:
        self.head: int = read("SELECT revision FROM controlplane_ledgerhead")[0][0]
        self.events: list[tuple[Any, ...]] = read(
            "SELECT revision, kind, instance, data FROM controlplane_event ORDER BY revision"
        )
        self.launches = read(LAUNCHES)
        self.ranks = read(RANKS)
        self.engines = read(ENGINES)
        self.bodies: dict[str, bytes] = {
            digest: bytes(body) for digest, body in read("SELECT digest, compressed FROM controlplane_enginebody")
        }
        self.beats: dict[str, float] = dict(read("SELECT worker, seen_at FROM controlplane_workerlease"))
        # Answered OK, and kept until their address is asked once more: the kernel gave them the port of a dead rank.
        self.late: dict[str, set[Address]] = {
            name: {(put["ip"], put["port"]) for put in json.loads(text)["puts"]}
            for name, text in read("SELECT name, late FROM controlplane_instance WHERE late <> ''")
        }
        self.debts: set[str] = {
            row[0] for row in read("SELECT name FROM controlplane_instance WHERE debt_since IS NOT NULL")
        }

    @property
    def open_launches(self) -> list[tuple[Any, ...]]:
        return [launch for launch in self.launches if launch[8] is None]

    def rows_of(self, name: str, number: int) -> dict[Slot, Address]:
        return {row[2:6]: row[6:8] for row in self.ranks if row[:2] == (name, number) and row[9] is None}


@contextmanager
def reading(backend: Backend) -> Iterator[Any]:
    if backend.database_url is not None:
        with psycopg.connect(backend.database_url, connect_timeout=30) as postgres:
            postgres.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield lambda sql: postgres.execute(sql).fetchall()
        return
    lite = sqlite3.connect(f"file:{backend.data_dir / 'controlplane.sqlite3'}?mode=ro", uri=True, timeout=20)
    try:
        lite.execute("BEGIN")
        yield lambda sql: lite.execute(sql).fetchall()
    finally:
        lite.close()


def read_database(backend: Backend) -> Database:
    with reading(backend) as read:
        return Database(read)


async def audit(storm: Storm, backend: Backend) -> list[str]:
    """Everything that is wrong, as sentences. The directory runs again; nobody writes."""
    database = read_database(backend)
    wrong = list(check_ledger(database)) + list(check_tables(database)) + list(check_replay(database))
    wrong += check_registrations(storm, database)
    wrong += [
        f"the heartbeat of {worker} at {at} was acknowledged; stored is {database.beats.get(worker)}"
        for worker, at in storm.beats.items()
        if database.beats.get(worker, 0) < at
    ]
    wrong += await check_rooms(storm)
    wrong += await check_engines(storm)
    wrong += await check_look_ups(storm)
    wrong += await check_answers(storm, backend)
    return wrong


async def ask(storm: Storm, client: Client, *request: Any, instance: str, within: float = 0) -> Answer:
    """One question of the audit. A patient client, whose database went away, may be hung up on and asks again."""
    if storm.patient:
        return await settled(client, *request, instance=instance, within=PATIENCE_SECONDS)
    return await eventually(client, *request, instance=instance, within=within)


def check_ledger(database: Database) -> Iterator[str]:
    """Gapless from 1 on, and the head is the last revision."""
    revisions = [event[0] for event in database.events]
    if revisions != list(range(1, len(revisions) + 1)):
        gaps = [a for a, b in itertools.pairwise(revisions) if b != a + 1]
        yield f"revisions have gaps, the first after {gaps[:1]}; they begin with {revisions[:1]}"
    if database.head != (revisions[-1] if revisions else 0):
        yield f"the head is {database.head}, the last revision {revisions[-1:]}"


def check_tables(database: Database) -> Iterator[str]:
    """At most one current and one candidate; ranks of open launches sit in slots of their topology, at one address each."""
    states: dict[str, list[str]] = defaultdict(list)
    for name, number, state, *sizes, _, ended in database.launches:
        if (ended is None) != (state in ("current", "candidate")):
            yield f"launch {number} of {name} is {state}, ended at {ended}"
        if ended is None:
            states[name].append(state)
            rows = database.rows_of(name, number)
            for slot in rows:
                if any(not 0 <= rank < size for rank, size in zip(slot, sizes, strict=True)):
                    yield f"launch {number} of {name} has the sizes {sizes} and a rank in {slot}"
            if len(set(rows.values())) != len(rows):
                yield f"launch {number} of {name} has one address in two slots: {rows}"
            if not rows:
                yield f"launch {number} of {name} is open and empty"
    for name, found in states.items():
        if len(found) != len(set(found)) or found == ["candidate"]:
            yield f"open launches of {name} are {found}"
    live = [(name, rank) for name, rank, _, _, state in database.engines if state == "live"]
    if len(live) != len(set(live)):
        yield f"two live engine infos of one rank: {sorted(live)}"
    for name, rank, _, digest, state in database.engines:
        body = database.bodies.get(digest)
        if state == "retired":
            continue
        if body is None or hashlib.sha256(zlib.decompress(body)).hexdigest() != digest:
            yield f"the {state} engine info of {name} rank {rank} has {'no' if body is None else 'a damaged'} body"


def check_replay(database: Database) -> Iterator[str]:
    """Facts and events were written together: the events alone lead to the same open launches, ranks and sessions."""
    launches: dict[tuple[str, int], dict[Slot, Address]] = {}
    engines: dict[tuple[str, int], str] = {}
    for _, kind, name, text in database.events:
        data = json.loads(text)
        key = (name, data.get("launch", 0))
        if kind == "launch.opened":
            launches[key] = {}
        elif kind == "rank.registered":
            launches[key][_slot(data)] = (data["ip"], data["port"])
        elif kind == "rank.left":
            launches[key].pop(_slot(data), None)
        elif kind == "launch.dropped":
            launches.pop(key, None)
        elif kind == "launch.promoted":
            launches.pop((name, data["replaced"]), None)
        elif kind == "engine.published":
            engines[name, data["rank"]] = data["session"]
        elif kind == "engine.retired" and engines.get((name, data["rank"])) == data["session"]:
            del engines[name, data["rank"]]
    stored = {(name, number): database.rows_of(name, number) for name, number, *_ in database.open_launches}
    for key in launches.keys() | stored.keys():
        if launches.get(key) != stored.get(key):
            yield f"launch {key[1]} of {key[0]}: events lead to {launches.get(key)}, the tables have {stored.get(key)}"
    live = {(name, rank): session for name, rank, session, _, state in database.engines if state == "live"}
    for where in engines.keys() | live.keys():
        if engines.get(where) != live.get(where):
            yield f"engine info of {where}: events lead to {engines.get(where)}, the table has {live.get(where)}"


def _slot(data: dict[str, Any]) -> Slot:
    dp, cp, tp, pp = data["slot"]
    return (dp, cp, tp, pp)


def check_registrations(storm: Storm, database: Database) -> list[str]:
    """Acknowledged ranks of an engine's last launch are there; a whole one before it serves until the last is whole."""
    wrong = []
    for name, attempts in storm.attempts.items():
        open_rows = {
            (slot, address)
            for _, number, *_ in (launch for launch in database.open_launches if launch[0] == name)
            for slot, address in database.rows_of(name, number).items()
        }
        sent = [attempt for attempt in attempts if attempt.sent]
        for attempt in sent[-1:]:
            wrong += _missing(name, attempt, open_rows, database)
        # A listening rank of an older launch is gone, and rightly so.
        if len(sent) > 1 and sent[-2].complete and not sent[-1].could_be_complete and not storm.listening:
            wrong += _missing(name, sent[-2], open_rows, database)
    seen = {(row[0], (row[2], row[4])): row[8] for row in database.ranks}
    for (name, at), began in storm.seen.items():
        if name.startswith("steady") and seen.get((name, at), 0) < began:
            wrong.append(f"{name} {at} registered at {began}, stored as seen at {seen.get((name, at))}")
    return wrong


def _missing(name: str, attempt: Attempt, rows: set[tuple[Slot, Address]], database: Database) -> Iterator[str]:
    for dp, tp in attempt.acknowledged:
        address = attempt.rows[dp, tp]
        if ((dp, 0, tp, 0), address) not in rows and address not in database.late.get(name, ()):
            # What became of it is in the ledger: the latest events of the instance and every one of this port.
            own = [event for event in database.events if event[2] == name]
            story = [*(event for event in own[:-25] if f":{address[1]}" in event[3] or f" {address[1]}" in event[3])]
            told = "\n".join(f"    {event}" for event in [*story, *own[-25:]])
            yield (
                f"{name} dp{dp} tp{tp} at {address} was acknowledged; open launches have {sorted(rows)}; sent"
                f" {sorted(attempt.sent)} of {attempt.rows}\n{told}"
            )


async def check_rooms(storm: Storm) -> list[str]:
    wrong: list[str | None] = []
    by_instance: dict[str, list[int]] = defaultdict(list)
    for name, room in storm.rooms.of:  # type: ignore[misc]
        by_instance[name].append(room)
    async with Client(storm.kv_port) as client:
        for name, rooms in by_instance.items():
            for start in range(0, len(rooms), 500):
                asked = rooms[start : start + 500]
                body = {"bootstrap_rooms": asked}
                answer = await ask(storm, client, "POST", "/query_dp_ranks", body, instance=name)
                # An instance that no acknowledged write had named need not exist.
                found = answer.json() if answer.status == 200 else {}
                wrong += [storm.rooms.compare((name, room), found.get(str(room), MISSING)) for room in asked]
    return [sentence for sentence in wrong if sentence]


async def check_engines(storm: Storm) -> list[str]:
    wrong: list[str | None] = []
    async with Client(storm.engine_port) as client:
        for name, rank in storm.engines.of:  # type: ignore[misc]
            path = f"/get_transfer_engine_info?rank={rank}"
            answer = await ask(storm, client, "GET", path, instance=name)
            head = b'{"rank":%d,"remote_instance_transfer_engine_info":' % rank
            found: object = answer.body.removeprefix(head).removesuffix(b"}")
            if answer.status != 200:
                found = MISSING if answer.status == 404 else answer
            wrong.append(storm.engines.compare((name, rank), found))
    return [sentence for sentence in wrong if sentence]


async def check_look_ups(storm: Storm) -> list[str]:
    """What was answered before the crash is answered the same after it."""
    wrong = []
    async with Client(storm.kv_port) as client:
        for (name, path), body in storm.looked_up.items():
            # With real sockets behind the ranks a launch is complete again only once they were asked.
            answer = await ask(storm, client, "GET", path, instance=name, within=15 if storm.listening else 0)
            if (answer.status, answer.body) != (200, body):
                wrong.append(f"{name} {path} was answered {body!r} before the crash, and is now {answer}")
    return wrong


async def check_answers(storm: Storm, backend: Backend) -> list[str]:
    """The wire says what the tables say, for every instance that serves."""
    wrong: list[str] = []
    for _ in range(12 if storm.listening else 1):
        wrong = []
        database = read_database(backend)
        async with Client(storm.kv_port) as client:
            for name, number, state, *_, completed, _ in database.open_launches:
                if state != "current" or completed is None or name in database.debts:
                    continue
                for (dp, _, tp, _), (ip, port) in database.rows_of(name, number).items():
                    answer = await ask(storm, client, "GET", slot_path(dp, tp), instance=name)
                    if answer.status != 200 or answer.json() != {"rank_ip": ip, "rank_port": port}:
                        wrong.append(f"{name} dp{dp} tp{tp} is stored at {ip}:{port}, and answered {answer}")
        if not wrong:
            return []
        # A probe came between the two reads, or a flush began.
        await asyncio.sleep(1)
    return wrong
