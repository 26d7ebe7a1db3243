"""Reported cases: counters that never move, series of what is gone, waits that are one opaque number."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from tests.cases.ranks import Ranks, eventually, here
from tests.cases.test_series import HEAD
from tests.controlplane.metrics.scraping import Scrape
from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.wire.client import ALL, rank
from tests.wire.conftest import Server
from tests.wire.raw import Wire

BY_THE_CLOCK = {"pdcp_probe_sweeps_total", "pdcp_log_lines_suppressed_total"}
Scraped = tuple[Server, Callable[[], Scrape]]


@pytest.fixture
def scraped(serve: Callable[..., Server]) -> Callable[..., Scraped]:
    """`scraped("a", PDCP_X=…)` -> a Server that probes nobody, and how to scrape it."""

    def start(*instances: str, **knobs: object) -> Scraped:
        port = free_port()
        server = serve(*instances, **{"PDCP_METRICS_BOOTSTRAP_PORT": port, "PDCP_PROBE_NETWORKS": "none", **knobs})
        return server, lambda: Scrape.of(f"http://127.0.0.1:{port}/metrics")

    return start


def counters(grown: dict[str, float]) -> dict[str, float]:
    """What grew of the counters, but for those that go by the clock."""
    return {
        name: by
        for name, by in grown.items()
        if name.startswith("pdcp_") and name.partition("{")[0].endswith("_total") and name not in BY_THE_CLOCK
    }


def test_OPS_01_every_counter_of_the_wires_moves_by_exactly_what_happened(scraped):
    server, scrape = scraped(PDCP_KV_BODY_LIMIT_BYTES=2048)
    before = scrape()
    kv, engine = server.kv("counted"), server.engine("counted")
    for dp in (0, 1, 1):
        assert kv.put(attn_dp_size=2, attn_dp_rank=dp, rank_port=41_000 + dp).status == 200
    for _ in range(5):
        assert kv.topology().status == 200
    assert kv.slot(tp=7).status == 404
    assert kv("GET", "/route").status == 400
    for room, dp in ((7, 0), (7, 0), (8, 0), (8, 1)):
        assert kv.bind(room, dp).status == 200
    for _ in range(2):
        assert kv.find(7, 9).json() == {"7": 0}
    assert engine.publish(tp_rank=0).status == 200
    for number in (0, 0, 3):
        engine("GET", f"/get_transfer_engine_info?rank={number}")
    for _ in range(6):
        assert kv("GET", "/health").status == 200
    beat = {"worker": "w", "slots": [[0, 0, 0, 0]], "lease_seconds": 600}
    assert kv("POST", "/pd/v1/heartbeats", js=beat).status == 200
    with Wire(server.process.kv_port) as wire:
        body = json.dumps(rank(attn_tp_rank=-1)).encode()
        for _ in range(2):
            wire.send(HEAD % len(body) + body)
            assert wire.answer().status == 400
    assert kv("PUT", "/route", body=b" " * 3000).status == 413
    assert kv.put(attn_dp_size=2, page_size=32).status == 200
    assert kv.put(attn_dp_size=2, attn_dp_rank=1, page_size=16).status == 409
    assert server.kv("nobody").topology().status == 404
    wanted = {
        "pdcp_registrations_total": 3 + 1 + 1,
        "pdcp_engine_publications_total": 1,
        "pdcp_heartbeats_total": 1,
        "pdcp_lookups_total": 5 + 1 + 1 + 2 + 3 + 1,
        "pdcp_lookup_misses_total{what=rank,why=unknown}": 1,
        "pdcp_lookup_misses_total{what=rank,why=malformed}": 1,
        "pdcp_lookup_misses_total{what=engine_info,why=unknown}": 1,
        "pdcp_refusals_total{reason=malformed}": 2,
        "pdcp_refusals_total{reason=too_large}": 1,
        "pdcp_refusals_total{reason=conflict}": 1,
        "pdcp_refusals_total{reason=not_found}": 1,
        "pdcp_health_polls_total{status=200}": 6,
        "pdcp_rooms_bound_total": 4,
        "pdcp_room_collisions_total": 1,
        "pdcp_rooms_asked_total": 4,
        "pdcp_rooms_answered_total": 2,
        # Which only the ledger tells: who came into being, and what was refused, once for equal sentences.
        "pdcp_events_total{kind=instance.added}": 1,
        "pdcp_events_total{kind=launch.opened}": 2,
        "pdcp_events_total{kind=rank.registered}": 3,
        "pdcp_events_total{kind=launch.completed}": 1,
        "pdcp_events_total{kind=engine.published}": 1,
        "pdcp_events_total{kind=registration.refused}": 3,
    }
    found: dict[str, float] = {}

    def told() -> bool:
        found.clear()
        found.update(counters(scrape().grown_since(before)))
        return found == wanted

    try:
        # The notes about refusals are stored a moment after their answers.
        eventually(told, within=30)
    except AssertionError:
        assert found == wanted


def test_ROOM_06_bindings_expire_are_evicted_and_rejected_and_each_is_counted(scraped):
    lives = 3
    server, scrape = scraped("a", PDCP_ROOM_LIMIT=5, PDCP_ROOM_TTL_SECONDS=lives)
    kv, began = server.kv("a", keep=True), time.monotonic()
    for room in range(8):
        assert kv.bind(room, 0).status == 200
    evicted = scrape().value("pdcp_rooms_evicted_total")
    # On a machine that is that busy the first of them was over before the last was bound.
    assert evicted == 3 or time.monotonic() - began > lives
    eventually(lambda: scrape().value("pdcp_rooms_expired_total") == 8 - evicted, within=30)
    said = scrape()
    assert said.value("pdcp_room_limit") == 5
    assert (said.value("pdcp_rooms"), said.value("pdcp_rooms_bound_total")) == (0, 8)
    assert kv.bind(7, 1).status == 200
    assert scrape().value("pdcp_rooms_reused_total") == 1
    with locked(server, "traffic.sqlite3"):
        assert kv.bind(99, 0).status == 503
    said = scrape()
    assert said.value("pdcp_rooms_rejected_total") == 1
    assert said.value("pdcp_commit_failures_total", recorder="rooms", why="away") >= 1
    assert said.value("pdcp_rooms_bound_total") == 9
    assert said.value("pdcp_commit_operations_sum", recorder="rooms") == 9


def test_OPS_01_what_could_not_be_stored_is_counted_and_the_scrape_says_that_the_database_is_away(scraped):
    server, scrape = scraped("a")
    kv = server.kv("a")
    assert kv.put().status == 200
    assert scrape().value("pdcp_facts_readable") == 1
    with locked(server, "controlplane.sqlite3"):
        assert kv.put(rank_port=42_000).status == 503
    said = scrape()
    assert said.value("pdcp_operations_not_stored_total") == 1
    assert said.value("pdcp_commit_failures_total", recorder="facts", why="away") == 1
    assert said.value("pdcp_commit_seconds_count", recorder="facts") >= 1


@contextmanager
def locked(server: Server, file: str) -> Iterator[None]:
    """Somebody else writes there, and does not come to an end."""
    with closing(sqlite3.connect(server.backend.data_dir / file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


def test_OPS_01_probes_are_counted_by_what_was_heard_and_timed(scraped, ranks: Ranks):
    knobs = {"PDCP_PROBE_NETWORKS": "127.0.0.0/8", "PDCP_PROBE_INTERVAL_SECONDS": 0.3}
    server, scrape = scraped("a", **knobs, PDCP_PROBE_TIMEOUT_SECONDS=5)
    port = ranks.open()
    assert server.kv("a").put(**here(rank_port=port)).status == 200
    eventually(lambda: scrape().value("pdcp_probes_total", result="up") > 2, within=30)
    said = scrape()
    assert said.value("pdcp_probe_seconds_count") == said.value("pdcp_probes_total", result="up")
    assert said.value("pdcp_probes_total", result="refused") == 0 and said.value("pdcp_probe_sweeps_total") > 0
    assert said.value("pdcp_probe_targets") == 1 and said.value("pdcp_probe_sweep_seconds") > 0
    assert said.value("pdcp_instance_ranks_answering", pd_instance="a", role="prefill") == 1
    assert said.value("pdcp_instance_healthy", pd_instance="a", role="prefill") == 1
    assert said.value("pdcp_launch_ready_seconds_count") == 1
    ranks.die(port)
    eventually(lambda: scrape().value("pdcp_instance_healthy", pd_instance="a", role="prefill") == 0, within=30)
    said = scrape()
    assert said.value("pdcp_probes_total", result="refused") >= 2
    assert said.value("pdcp_events_total", kind="rank.left") == 1
    assert said.value("pdcp_instance_ranks_registered", pd_instance="a", role="prefill") == 0


def test_OPS_02_what_was_removed_has_no_series_any_more_and_late_word_brings_none_back(scraped):
    server, scrape = scraped("stays")
    assert server.kv("stays").put(rank_port=40_999).status == 200
    for name, port in (("gone", 41_000), ("other", 41_001)):
        assert server.kv(name).put(rank_port=port).status == 200
    instances = {dict(labels)["pd_instance"] for labels in scrape().series("pdcp_instance_healthy")}
    assert instances == {"stays", "gone", "other"}
    server.operator.retire("gone")
    eventually(lambda: 'pd_instance="gone"' not in scrape().text)
    # What was in flight when it was removed.
    kv = server.kv("gone")
    assert kv.put(rank_port=41_000).status == 409
    assert kv.bind(7, 0).status == 409
    assert kv("GET", "/health").status == 404 and kv.topology().status == 404
    assert 'pd_instance="gone"' not in scrape().text
    server.operator.add("gone")
    assert eventually(lambda: server.kv("gone").put(rank_port=51_000).status == 200)
    assert scrape().value("pdcp_instance_ranks_registered", pd_instance="gone", role="prefill") == 1


def test_OPS_02_five_hundred_restarts_at_new_addresses_leave_as_many_series_as_one(scraped):
    server, scrape = scraped("a")
    kv = server.kv("a", keep=True)
    assert kv.put(rank_ip="10.0.1.10", rank_port=40_000).status == 200
    first = scrape()
    for number in range(500):
        put = {"rank_ip": f"10.0.{number // 250 + 2}.{number % 250 + 1}", "rank_port": 41_000 + number}
        assert kv.put(**put).status == 200
    last = scrape()
    assert first.values.keys() == last.values.keys()
    assert last.value("pdcp_instance_ranks_registered", pd_instance="a", role="prefill") == 1
    assert last.value("pdcp_events_total", kind="rank.registered") == 501
    assert "10.0.2.1" not in last.text


@pytest.mark.parametrize("agent", ["a-gateway", "python-requests/2.32.3"], ids=["anybody", "SGLang's decode"])
def test_OPS_04_waits_for_the_topology_and_for_rooms_are_two_histograms_of_who_had_to_wait(scraped, agent):
    server, scrape = scraped("a")
    kv = server.kv("a", keep=True)

    def topology() -> int:
        return kv("GET", "/route", ALL, headers={"User-Agent": agent}).status

    assert kv.put(attn_tp_size=2, rank_port=41_000).status == 200
    slow, began = 1.2, time.monotonic()
    assert topology() == 503
    said = scrape()
    assert said.value("pdcp_waiting", phase="topology") == 1
    assert said.value("pdcp_lookup_misses_total", what="topology", why="incomplete") == 1
    # A hundred rooms that are bound before they are asked for, and fifty that are asked for first.
    time.sleep(slow)
    assert kv.put(attn_tp_size=2, attn_tp_rank=1, rank_port=41_001).status == 200
    for _ in range(3):
        assert topology() == 200
    waited = time.monotonic() - began
    for room in range(100):
        assert kv.bind(room, 0).status == 200
        assert kv.find(room).json()
    late = list(range(1000, 1050))
    began = time.monotonic()
    assert kv.find(*late).json() == {}
    assert scrape().value("pdcp_waiting", phase="room") == 50
    time.sleep(slow)
    for room in late:
        assert kv.bind(room, 0).status == 200
    assert len(kv.find(*late).json()) == 50
    waited_for_rooms = time.monotonic() - began
    said = scrape()
    for phase, count, longest in (("topology", 1, waited), ("room", 50, waited_for_rooms)):
        assert said.value("pdcp_wait_seconds_count", phase=phase) == count
        assert slow * count <= said.value("pdcp_wait_seconds_sum", phase=phase) <= (longest + 0.1) * count
        assert said.value("pdcp_wait_seconds_bucket", phase=phase, le="1.0") == 0
        assert said.value("pdcp_waiting", phase=phase) == 0
    assert said.value("pdcp_rooms_asked_total") == 200 and said.value("pdcp_rooms_answered_total") == 150


def test_OPS_06_the_true_count_of_what_the_log_left_out_is_a_metric(scraped):
    server, scrape = scraped("a")
    kv = server.kv("a", keep=True)
    assert kv.put(attn_tp_size=2).status == 200
    before = scrape()
    for number in range(1000):
        assert kv.put(attn_tp_rank=7 if number % 2 else 10 + number).status == 400
    grown = scrape().grown_since(before)
    assert grown["pdcp_refusals_total{reason=malformed}"] == 1000
    assert grown["pdcp_log_lines_suppressed_total"] >= 1000 - 100


def test_scrapes_hold_up_neither_the_wire_nor_each_other(scraped):
    """A thousand instances, four scrapes at a time: look-ups go on meanwhile."""
    names = [f"i{number}" for number in range(1000)]
    server, scrape = scraped(*names)
    kv = server.kv("i7", keep=True)
    assert kv.put().status == 200
    stop, sizes = threading.Event(), []

    def scraping() -> None:
        while not stop.is_set():
            sizes.append(len(scrape().series("pdcp_instance_healthy")))

    threads = [threading.Thread(target=scraping) for _ in range(2)]
    for thread in threads:
        thread.start()
    took = []
    try:
        eventually(lambda: len(sizes) >= 2, within=60 * slowness())
        for _ in range(300):
            began = time.monotonic()
            assert kv.topology().status == 200
            took.append(time.monotonic() - began)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    took.sort()
    assert set(sizes) == {1000}
    assert took[len(took) * 9 // 10] < 0.25 * slowness()
