"""The cases under load, as a table: what is sent, to which door, against which bar."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.bench import traffic
from tests.bench.load import Request
from tests.bench.report import Bar
from tests.bench.servers import Server

READ, WRITE = Bar(p99_at_most=1.0), Bar(p99_at_most=2.0)
FASTEST_PER_SECOND = 45_000
_passes = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a run of the whole benchmark takes: seconds a measurement, how many, at which connections."""

    seconds: int
    alternations: int
    connections: tuple[int, ...]
    quick: bool


FULL = Plan(seconds=3, alternations=3, connections=(1, 16, 64), quick=False)
QUICK = Plan(seconds=1, alternations=3, connections=(1, 64), quick=True)


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that clients do. `requests(server, seconds)` is what one pass sends."""

    name: str
    requests: Callable[[Server, int], Iterable[Request]]
    bar: Bar
    door: str = "kv"
    order: str = "cycle"
    close: bool = False
    writes: bool = False
    postgres_bar: Bar = WRITE
    fresh: bool = False
    """SGLang's server is started anew for each pass; ours gets an instance of its own."""
    least_seconds: int = 1
    only_at_most: bool = False
    """In a quick run measured at the largest number of connections only."""

    def seconds(self, plan: Plan) -> int:
        return max(plan.seconds, self.least_seconds)

    def connections(self, plan: Plan) -> tuple[int, ...]:
        return plan.connections[-1:] if plan.quick and self.only_at_most else plan.connections


def first_registrations(server: Server, seconds: int) -> Iterable[Request]:
    instance = f"bench-{next(_passes)}" if server.tenants else None
    return traffic.first_registrations(FASTEST_PER_SECOND * seconds, instance=instance)


def new_rooms(_server: Server, seconds: int) -> Iterable[Request]:
    return traffic.new_rooms("", FASTEST_PER_SECOND * seconds)


# One directory of 1,024 ranks and 4,096 rooms, the same servers for all of these.
DIRECTORY = [
    Case("slot look-up", lambda *_: traffic.slot_look_ups(""), Bar(2.5, p99_at_most=1.0), order="random"),
    Case("topology", lambda *_: traffic.topology(""), Bar(3.0, p99_at_most=1.0)),
    Case(
        "topology, new connection each",
        lambda *_: traffic.topology(""),
        READ,
        close=True,
        only_at_most=True,
    ),
    Case("/health", lambda *_: traffic.health(""), READ, only_at_most=True),
    Case(
        "query of 64 rooms",
        lambda *_: traffic.room_queries(""),
        Bar(1.5, p99_at_most=1.0),
        only_at_most=True,
    ),
    Case(
        "repeated registration",
        lambda *_: traffic.repeated_registrations(""),
        WRITE,
        writes=True,
        only_at_most=True,
    ),
    Case(
        "repeated registration, new connection each",
        lambda *_: traffic.repeated_registrations(""),
        WRITE,
        close=True,
        writes=True,
        only_at_most=True,
    ),
]

# Servers of their own for each of these, since they grow.
GROWING = [
    Case(
        "first registration",
        first_registrations,
        Bar(1.0, p99_at_most=2.0),
        writes=True,
        postgres_bar=Bar(0.6, p99_at_most=2.0),
        fresh=True,
        only_at_most=True,
    ),
    Case(
        "first registration, new connection each",
        first_registrations,
        WRITE,
        close=True,
        writes=True,
        fresh=True,
        only_at_most=True,
    ),
    Case(
        "register_dp_rank",
        new_rooms,
        Bar(1.0, p99_at_most=2.0),
        writes=True,
        postgres_bar=Bar(0.6, p99_at_most=2.0),
        only_at_most=True,
    ),
    Case(
        "register_dp_rank, new connection each",
        new_rooms,
        WRITE,
        close=True,
        writes=True,
        only_at_most=True,
    ),
]


def engine_cases(tensors: int) -> list[Case]:
    """Engine info of `tensors` tensors a rank. At 64 connections and 5,000 SGLang answers after 1.5 s."""
    size, least = f"{tensors:,} tensors", 3 if tensors >= 5000 else 1
    return [
        Case(
            f"engine info GET, {size}",
            lambda *_: traffic.weights_look_ups(""),
            Bar(20.0, p99_at_most=1.0) if tensors >= 5000 else READ,
            door="engine",
            least_seconds=least,
            only_at_most=True,
        ),
        Case(
            f"engine info PUT, {size}",
            lambda *_: traffic.weights_uploads("", tensors),
            WRITE,
            door="engine",
            writes=True,
            least_seconds=least,
            only_at_most=True,
        ),
    ]
