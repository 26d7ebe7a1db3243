"""What happens in these tests: changes by operators and gateways, a backup, and what was committed at each position."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import httpx
from django.db import connections, transaction

from controlplane.commands import gateways, instances, intent, reports
from controlplane.commands.transaction import record
from controlplane.databases import FACTS, READER
from controlplane.domain import fleetstate
from controlplane.domain.fleetstate import State
from controlplane.domain.topology import SharedFacts, Slot
from controlplane.ledger import position as positions
from controlplane.ledger import tail
from controlplane.ledger.append import NewEvent
from controlplane.queries.fleet import snapshot
from controlplane.simulation.payload import route_row
from controlplane.simulation.shape import Shape

LEASE_SECONDS = 3600.0


@dataclass
class Fleet:
    """Makes one change after another, each committed; which one is up to a seed."""

    names: list[str]
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    gateways: tuple[str, ...] = ("gw-1", "gw-2")

    def open(self) -> Fleet:
        for name in self.names:
            instances.add(name, role="prefill", actor="test")
        for name in self.gateways:
            gateways.join(name, f"http://10.0.0.7:3000{name[-1:]}", LEASE_SECONDS)
        return self

    def change(self) -> None:
        name = self.chance.choice(self.names)
        what = self.chance.randrange(8)
        if what < 3:
            intent.cordon(name, actor="anna", reason="test")
            intent.uncordon(name, actor="otto")
        elif what < 5:
            gateway = self.chance.choice(self.gateways)
            state = self.chance.choice(["open", "half_open", "closed"])
            reports.report_breakers(gateway, [{"instance": name, "dp": None, "state": state}])
        elif what < 7:
            alias = f"{name}-{self.chance.randrange(10**6)}.example.org"
            instances.edit(name, host_alias=alias, actor="anna")
        else:
            gateway = self.chance.choice(self.gateways)
            gateways.leave(gateway, actor="anna")
            gateways.join(gateway, f"http://10.0.{self.chance.randrange(256)}.7:30000", LEASE_SECONDS)


def register(kv_url: str, instance: str, *, dp: int, tp: int) -> None:
    """All ranks of a launch, as SGLang registers them."""
    shape = Shape(dp=dp, tp=tp)
    facts = SharedFacts(page_size=64, kv_cache_dtype="auto")
    with httpx.Client(timeout=30) as client:
        for rank in range(dp * tp):
            slot = Slot(dp=rank // tp, cp=0, tp=rank % tp, pp=0)
            row = route_row(shape, slot, facts, ip="203.0.113.7", port=20_000 + rank, http_port=30_000)
            assert client.put(f"{kv_url}/i/{instance}/route", json=row).status_code == 200


def say_at_length(kilobytes: int) -> None:
    """An event that fills buffers."""
    text = random.randbytes(kilobytes * 512).hex()
    record(lambda: (None, [NewEvent("test.said", "", {"text": text})]))


class Changes(threading.Thread):
    """Changes at a steady rate, in a thread, until stopped; an error is raised by `stop`."""

    def __init__(self, fleet: Fleet, *, per_second: float) -> None:
        super().__init__(name="changes", daemon=True)
        self._fleet, self._pause = fleet, 1 / per_second
        self._ended = threading.Event()
        self.problem: BaseException | None = None
        self.count = 0

    def run(self) -> None:
        next_at = time.monotonic()
        try:
            while not self._ended.is_set():
                self._fleet.change()
                self.count += 1
                next_at += self._pause
                self._ended.wait(max(0.0, next_at - time.monotonic()))
        except BaseException as problem:
            self.problem = problem
        finally:
            connections.close_all()

    def stop(self) -> None:
        self._ended.set()
        self.join(60)
        if self.problem is not None:
            raise self.problem


def off_the_loop(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work` in a thread of its own, waited for: Django refuses the database to whoever is in an event loop."""

    @wraps(work)
    def run(*args: Any, **options: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(and_let_go, *args, **options).result()

    def and_let_go(*args: Any, **options: Any) -> Any:
        try:
            return work(*args, **options)
        finally:
            connections.close_all()

    return run


def history(instance: str = "") -> dict[str, State]:
    """What was true after every event of the ledger as it is now, by position, told from its beginning."""
    with snapshot():
        ledger = tail.head().ledger_id
        events = tail.after(0, limit=10**6)
    state = fleetstate.empty()
    found = {str(positions.Position(ledger, 0)): state}
    for event in events:
        if not instance or event.instance in (instance, ""):
            state = fleetstate.apply(state, event)
        found[str(positions.after(ledger, event))] = state
    return found


class Backup:
    """All tables of facts as they are now, to be put back later in one transaction, while everybody runs."""

    # What others point to comes first.
    TABLES = (
        "instance", "launch", "rank", "enginebody", "engineinfo", "groupintent", "drain", "gateway", "breaker",
        "router", "routermember", "event", "ledgerhead",
    )  # fmt: skip

    def __init__(self) -> None:
        self._rows: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}
        with snapshot(), connections[READER].cursor() as cursor:
            for table in (f"controlplane_{name}" for name in self.TABLES):
                cursor.execute(f'SELECT * FROM "{table}"')
                self._rows[table] = [column[0] for column in cursor.description], list(cursor.fetchall())

    def restore(self, *, then: Any = None) -> None:
        """`then()` runs in the same transaction: nobody sees the ledger between the two."""
        with transaction.atomic(using=FACTS), connections[FACTS].cursor() as cursor:
            for table in reversed(self._rows):
                cursor.execute(f'DELETE FROM "{table}"')
            for table, (columns, rows) in self._rows.items():
                names = ", ".join(f'"{name}"' for name in columns)
                marks = ", ".join(["%s"] * len(columns))
                cursor.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', rows)
            if then is not None:
                then()
