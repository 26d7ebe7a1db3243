"""Alternates servers over one case: A B C A B C A B C, so that what else the machine does hits all alike."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench import load, traffic
from tests.bench.cases import Case, Plan
from tests.bench.load import Request, Run
from tests.bench.report import Bar, Row, compared
from tests.bench.servers import POSTGRES, SQLITE, THEIRS, Server, Stable, wait_for

TOO_MUCH_FOREIGN_LOAD = 0.35
"""Cores that other programs used during a run; a full benchmark then measures once more."""


def compare(stable: Stable, case: Case, plan: Plan, servers: dict[str, Server] | None = None) -> Iterator[Row]:
    """The rows of one case. Without `servers` it gets servers of its own for each number of connections."""
    for connections in case.connections(plan):
        own = servers is None
        used = start(stable, writes=case.writes) if own else dict(servers or {})
        if not case.writes:
            used.pop(POSTGRES, None)
        runs: dict[str, list[Run]] = {name: [] for name in used}
        for _ in range(plan.alternations):
            for name in used:
                if case.fresh and name == THEIRS and runs[name]:
                    stable.stop(used[name])
                    used[name] = stable.start(name)
                seconds = case.seconds(plan)
                runs[name].append(measure(used[name], case, connections, seconds, again=not plan.quick))
        if own:
            for server in used.values():
                stable.stop(server)
        for name in (SQLITE, POSTGRES):
            if name in runs:
                bar = case.bar if name == SQLITE else case.postgres_bar
                # The bars are set at 64 connections; elsewhere numbers are for information.
                bar = bar if connections == 64 else Bar()
                yield compared(case.name, name, connections, runs[name], runs[THEIRS], bar)


def start(stable: Stable, *, writes: bool, **knobs: object) -> dict[str, Server]:
    """Fresh servers in the order in which they alternate."""
    names = [SQLITE, THEIRS, POSTGRES] if writes and stable.has_postgres else [SQLITE, THEIRS]
    return {name: stable.start(name, **knobs) for name in names}


def measure(server: Server, case: Case, connections: int, seconds: int, *, again: bool) -> Run:
    """One pass of a case against one server; `again` allows a second one when others used the machine."""
    run = _run(server, case, connections, seconds)
    if again and run.foreign_cores > TOO_MUCH_FOREIGN_LOAD:
        second = _run(server, case, connections, seconds)
        run = min(run, second, key=lambda each: each.foreign_cores)
    return run


def fill(server: Server, requests: list[Request], *, door: str = "kv") -> None:
    """Send every request once, 64 at a time, and insist that none is refused."""
    at = 0
    while at < len(requests):
        left = requests[at:]
        with tempfile.TemporaryDirectory() as directory:
            file = load.write_requests(Path(directory) / "requests", left)
            done = load.run(
                server.url(door),
                file,
                processes=server.processes(door),
                connections=64,
                seconds=1 + len(left) // 20_000,
                order="once",
            )
        if done.refused or done.broken:
            raise RuntimeError(f"{server.name} refused {done.refused} and broke {done.broken} of {len(left)}")
        # The last request of each connection may have been cut off; all of them can be repeated.
        at += max(1, done.sent - 64) if done.sent < len(left) + 64 else len(left)


def prepare_directory(server: Server) -> None:
    """1,024 ranks, complete, and 4,096 rooms."""
    fill(server, [*traffic.repeated_registrations(""), *traffic.known_rooms("")])
    wait_for(f"{server.url('kv')}/route?{traffic.TOPOLOGY_QUERY}", within=10)


def prepare_engine(server: Server, tensors: int) -> None:
    """One rank with its dictionary.

    More would burden the look-ups of SGLang's server with the garbage collection of all the others.
    """
    fill(server, traffic.weights_uploads("", tensors)[:1], door="engine")


def _run(server: Server, case: Case, connections: int, seconds: int) -> Run:
    with tempfile.TemporaryDirectory() as directory:
        requests = load.write_requests(Path(directory) / "requests", case.requests(server, seconds))
        return load.run(
            server.url(case.door),
            requests,
            processes=server.processes(case.door),
            connections=connections,
            seconds=seconds,
            order=case.order,
            close=case.close,
        )
