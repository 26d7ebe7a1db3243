"""A decode's cold start: everything it needs of a prefill of 64 ranks, by the SDK and by SGLang's own client."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench.cases import Plan
from tests.bench.report import Bar, Row, plain
from tests.bench.servers import SQLITE, Stable
from tests.support.processes import Child, clean_env
from workers.sdk import Client, ControlPlane, Question, Rank, read_decode

RANKS, TIMES = 64, 15
QUESTION = Question(
    read_decode({"tp_size": 1, "pp_size": 1, "is_mla": False, "is_hybrid_mla": False, "page_size": 64}), engine_rank=0
)


def cold_resolve(stable: Stable, plan: Plan, log: Path) -> Iterator[Row]:
    """Both ask the same server in turn; each of ours is a client of its own, which has no connection yet."""
    theirs = Child([sys.executable, "-m", "tests.bench.real_resolver"], env=clean_env(), log=log, stdin=True)
    theirs.wait_for_line("^waiting$", timeout=90)
    server = stable.start(SQLITE)
    address = server.url("kv").removeprefix("http://")
    plane = ControlPlane.at(address)
    # 203.0.113.0/24 is documentation address space: nobody is probed there.
    ranks = [
        Rank(rank_ip="203.0.113.9", rank_port=20_000 + tp, page_size=64, attn_tp_size=RANKS, attn_tp_rank=tp)
        for tp in range(RANKS)
    ]
    with Client(plane, token="bench") as prefill:
        prefill.register(ranks).wait(within=60)
        prefill.until_ready(QUESTION, within=60)
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(TIMES):
        with Client(plane, token="bench") as decode:
            began = time.perf_counter()
            found = decode.resolve(QUESTION)
            took["ours"].append(time.perf_counter() - began)
        assert [target.port for target in found.targets(0)] == [rank.rank_port for rank in ranks]
        heard = len(theirs.lines)
        theirs.say(address)
        took["theirs"].append(float(theirs.wait_for_line(r"^took (\S+)$", timeout=60, after=heard)[1]))
    stable.stop(server)
    theirs.kill9()
    ours, others = (1000 * median(times) for times in took.values())
    note = "the SDK's resolve() with SGLang's client on the same server, both cold; medians of 15 in turn"
    yield plain(
        f"cold resolve of {RANKS} ranks", SQLITE, "ms", ours, others, bar=Bar(at_most=1 / 20), of_ratio=True, note=note
    )
