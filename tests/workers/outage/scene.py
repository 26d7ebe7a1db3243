"""A control plane of real processes that goes away and comes back, and what it has kept of single rooms."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.support.operator import Operator
from tests.workers.outage.traffic import Sent, Traffic
from tests.workers.sdk.plane import RealPlane
from tests.workers.sdk.waiting import soon_here

GENEROUS = 60.0
SLACK = 0.25
WANTED = sorted(["registered", "connected", "resolved", "connected", "verified", "consumed"])
"""What both sides of a pair tell of a room that went well: the first two are the prefill's."""

VERBS = ("register", "resolve", "read", "report")


class Told(NamedTuple):
    instance: str
    rung: str
    result: str
    at: float
    received_at: float


class Outage:
    """`left_at`, `back_at`: by the wall clock, when both processes were gone, and when the first of them was started."""

    def __init__(self, plane: RealPlane) -> None:
        self.plane = plane
        self.token = plane.token("fleet", *VERBS)
        self.left_at = self.back_at = 0.0

    def how(self, instance: str | None) -> dict[str, Any]:
        """What an agent is told of the API."""
        return {"instance": instance, "api": self.plane.web.url, "token": self.token}

    def leave(self) -> None:
        """kill -9, both at once: what was on its way is neither finished nor answered."""
        self.plane.web.kill9()
        self.plane.bootstrap.kill9()
        self.left_at = time.time()

    def come_back(self) -> None:
        self.back_at = time.time()
        self.plane.bootstrap.start()
        self.plane.web.start()

    def complete(self, instance: str) -> dict[str, Any]:
        """The instance, once all of its ranks are in the directory."""
        operator = Operator(self.plane.web.url, self.token, instance)
        return dict(operator.until(f"instances/{instance}", lambda said: said["complete"]))

    def explained(self, room: int) -> dict[str, Any]:
        return dict(Operator(self.plane.web.url, self.token, "").get(f"explain/room/{room}"))

    def leases(self, instance: str) -> list[tuple[str, float]]:
        """Its workers, and when each lease is over."""
        query = """SELECT l.worker, l.expires_at FROM controlplane_workerlease l
                   JOIN controlplane_instance i ON i.id = l.instance_id WHERE i.name = ?"""
        return self._rows("controlplane.sqlite3", query, (instance,))

    def told(self, rooms: Iterable[int]) -> dict[int, list[Told]]:
        """By room, as the control plane has it."""
        found: dict[int, list[Told]] = {room: [] for room in rooms}
        query = "SELECT room, instance, rung, result, at, received_at FROM controlplane_roomreport ORDER BY id"
        for room, *said in self._rows("traffic.sqlite3", query):
            if room in found:
                found[room].append(Told(*said))
        return found

    def _rows(self, file: str, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        connection = sqlite3.connect(f"file:{self.plane.backend.data_dir / file}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()


def at(address: str) -> Any:
    """A bootstrap server at HOST:PORT, as `pair` wants it."""
    host, _, port = address.rpartition(":")
    return SimpleNamespace(host=host, kv_port=int(port))


def nothing_failed(traffic: Traffic, outage: Outage) -> None:
    assert traffic.failed == [], f"{traffic.instance}: {traffic.failed[:3]}"
    away = traffic.during(outage.left_at, outage.back_at)
    assert len(away) >= 3, f"{traffic.instance} had {len(away)} requests while the control plane was away"


def evidence_is_complete(traffic: Traffic, outage: Outage) -> None:
    """Every rung of every room, once each, of the right prefill, and as old as it is."""
    rooms = {one.room: one for one in traffic.sent}

    def all_there() -> Any:
        told = outage.told(rooms)
        return told if all(len(said) >= len(WANTED) for said in told.values()) else None

    told = soon_here(all_there, within=GENEROUS)
    batches: dict[float, list[tuple[Sent, Told]]] = {}
    for room, said in told.items():
        assert sorted(one.rung for one in said) == WANTED, said
        assert {(one.instance, one.result) for one in said} == {(traffic.instance, "passed")}
        for one in said:
            batches.setdefault(one.received_at, []).append((rooms[room], one))
    for batch in batches.values():
        its_times_are_right(batch)
    for one in (traffic.sent[0], *traffic.during(outage.left_at, outage.back_at)[:2], traffic.sent[-1]):
        assert outage.explained(one.room)["conclusion"]["kind"] == "consumed"


def its_times_are_right(batch: list[tuple[Sent, Told]]) -> None:
    """What came in one report was under way for the same moment: with that taken off, each lies within its request."""
    at_least = max(one.at - sent.ended for sent, one in batch)
    at_most = min(one.at - sent.began for sent, one in batch)
    assert at_most > -SLACK and at_least < at_most + SLACK and at_least < GENEROUS, batch
