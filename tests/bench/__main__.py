"""`python -m tests.bench`: measure everything and write docs/benchmarks.{md,json}. QUICK=1: within 5 minutes.

`python -m tests.bench PATTERN…` measures only what has a pattern in its name, and writes nothing.
"""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench import live, moving, pages, probing, resolving, special, weights
from tests.bench.cases import DIRECTORY, FULL, GROWING, QUICK, Case, Plan, engine_cases
from tests.bench.compare import compare, prepare_directory, prepare_engine, start
from tests.bench.load import machine
from tests.bench.report import Row, notes, summary, table, write
from tests.bench.servers import Stable, stable

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> None:
    if not shutil.which("wrk"):
        sys.exit("error: the benchmark needs wrk (apt-get install wrk)")
    plan = QUICK if os.environ.get("QUICK") else FULL
    patterns = sys.argv[1:]
    began = time.monotonic()
    rows: list[Row] = []
    with stable(postgres=not os.environ.get("WITHOUT_POSTGRES")) as servers:
        for row in measured(servers, plan, patterns):
            print(table([row]).splitlines()[-1], flush=True)
            rows.append(row)
    took = time.monotonic() - began
    print(f"\n{table(rows)}\n\n{summary(rows)}\n{notes(rows)}{took / 60:.1f} minutes")
    if not patterns:
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        write(rows, DOCS, machine=machine(), date=date, quick=plan.quick, took=took)


def measured(servers: Stable, plan: Plan, patterns: list[str]) -> Iterator[Row]:
    """Every row, as soon as it is there."""

    def wanted(name: str) -> bool:
        return not patterns or any(pattern in name for pattern in patterns)

    log = Path(tempfile.gettempdir()) / f"pdcp-bench-{os.getpid()}.log"
    yield from _directory(servers, plan, [case for case in DIRECTORY if wanted(case.name)], wanted, log)
    for case in GROWING:
        if wanted(case.name):
            yield from compare(servers, case, plan)
    for tensors in (1000, 5000):
        yield from _engine(servers, plan, tensors, [each for each in engine_cases(tensors) if wanted(each.name)])
    if wanted("commit to socket"):
        yield from live.commit_to_socket(servers, plan)
    if wanted("page"):
        yield from pages.pages(servers, plan)
    if wanted("probing"):
        yield from probing.probing(servers, plan)
    if wanted("real clients"):
        yield from special.real_clients(servers, plan, log)
    if wanted("cold resolve"):
        yield from resolving.cold_resolve(servers, plan, log)
    if wanted("KV in"):
        yield from moving.moving(plan)
    if wanted("of weights"):
        yield from weights.weights(servers, plan)
    if wanted("restart"):
        yield from special.growth_and_restart(servers, plan)
    log.unlink(missing_ok=True)


def _directory(
    servers: Stable, plan: Plan, cases: list[Case], wanted: Callable[[str], bool], log: Path
) -> Iterator[Row]:
    others = [name for name in ("memory", "beside") if wanted(name)]
    if not cases and not others:
        return
    running = start(servers, writes=any(case.writes for case in cases))
    for server in running.values():
        prepare_directory(server)
    if "memory" in others:
        yield special.memory(running, log)
    for case in cases:
        yield from compare(servers, case, plan, running)
    if "beside" in others:
        yield from special.beside(running, plan, log)
    for server in running.values():
        servers.stop(server)


def _engine(servers: Stable, plan: Plan, tensors: int, cases: list[Case]) -> Iterator[Row]:
    if not cases:
        return
    running = start(servers, writes=any(case.writes for case in cases))
    for server in running.values():
        prepare_engine(server, tensors)
    for case in cases:
        yield from compare(servers, case, plan, running)
    for server in running.values():
        servers.stop(server)


if __name__ == "__main__":
    main()
