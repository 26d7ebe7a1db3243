"""The benchmark measures what it says: its traffic and its verdicts."""

from __future__ import annotations

import json

import pytest

from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation.payload import encode, route_row
from controlplane.simulation.shape import Shape
from tests.bench import traffic
from tests.bench.load import Run
from tests.bench.report import Bar, compared, plain, summary, table, write


def run(per_second: float, p99: float) -> Run:
    return Run(per_second, 1.0, 1.0, p99, 40.0, 100.0, 0.0, 0, 0, 1000)


def test_a_row_is_what_a_simulated_rank_sends():
    facts = SharedFacts(page_size=64, kv_cache_dtype="auto")
    shape = Shape(dp=8, cp=4, tp=8, pp=4)
    row = route_row(shape, Slot(1, 0, 0, 0), facts, ip="203.0.113.2", port=20_001, http_port=30_000)
    assert json.loads(list(traffic.rows(2))[1]) == row
    assert len(list(traffic.rows(2))[1]) == len(encode(row))


def test_1024_rows_are_1024_slots_and_the_first_ones_never_repeat():
    def slots(bodies: list[str]) -> set[tuple[int, ...]]:
        keys = ("attn_dp_rank", "attn_cp_rank", "attn_tp_rank", "pp_rank")
        return {tuple(json.loads(body)[key] for key in keys) for body in bodies}

    assert len(slots(list(traffic.rows(1024)))) == 1024
    assert len(slots(list(traffic.rows(5000, past_the_end=True)))) == 5000
    ours = list(traffic.first_registrations(5000, instance="fleet"))
    assert len(set(ours)) == 5000 and {request.path for request in ours} == {
        f"/i/fleet-{number}/route" for number in range(5)
    }


def test_uploads_change_the_dictionary_of_a_rank_when_it_comes_again():
    uploads = traffic.weights_uploads("", 10)
    first, again = (json.loads(uploads[at].body) for at in (0, traffic.SESSIONS))
    assert first["tp_rank"] == again["tp_rank"]
    assert first["transfer_engine_info"]["session_id"] == again["transfer_engine_info"]["session_id"]
    assert first != again


def test_rates_are_medians_and_the_tail_is_the_best_alternation():
    ours = [run(300, 9.0), run(100, 2.0), run(200, 5.0)]
    row = compared("case", "SQLite", 64, ours, [run(100, 2.5)] * 3, Bar(at_least=2.0, p99_at_most=1.0))
    assert (row.ours, row.theirs, row.ratio) == (200, 100, 2.0)
    assert (row.p99_ours_ms, row.p99_theirs_ms) == (2.0, 2.5)
    assert row.met is True and row.p99_met is True


@pytest.mark.parametrize(("rate", "p99", "met", "p99_met"), [(199, 2.0, False, True), (200, 2.1, True, False)])
def test_a_bar_is_missed_by_the_rate_or_by_the_tail_and_the_summary_says_which(rate, p99, met, p99_met):
    bar = Bar(at_least=2.0, p99_at_most=1.0)
    row = compared("look-up", "SQLite", 64, [run(rate, p99)], [run(100, 2.0)], bar)
    assert (row.met, row.p99_met) == (met, p99_met)
    assert summary([row]).startswith("1 of 2 bars met.")
    assert summary([row]).count("missed: look-up") == 1


def test_a_plain_number_is_measured_against_its_own_bar_or_against_theirs():
    assert plain("memory per room", "SQLite", "bytes", 110, 320, bar=Bar(at_most=120)).met is True
    assert plain("memory", "SQLite", "MB", 110, 320, bar=Bar(at_most=1 / 3), of_ratio=True).met is False
    assert plain("restart", "SQLite", "s", 2.0).met is None


def test_the_report_is_written_as_json_and_markdown(tmp_path):
    rows = [compared("look-up", "SQLite", 64, [run(300, 2.0)], [run(100, 2.0)], Bar(at_least=2.5))]
    write(rows, tmp_path, machine="a machine", date="today", quick=True, took=60)
    written = json.loads((tmp_path / "benchmarks.json").read_text())
    assert (written["machine"], written["date"]) == ("a machine", "today")
    case = written["cases"][0]
    assert {key: case[key] for key in ("name", "connections", "ours", "theirs", "ratio", "met")} == {
        "name": "look-up",
        "connections": 64,
        "ours": 300,
        "theirs": 100,
        "ratio": 3.0,
        "met": True,
    }
    assert table(rows) in (tmp_path / "benchmarks.md").read_text()
