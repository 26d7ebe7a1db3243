"""The metrics of a bootstrap process are there while it stands by, begin anew with its term, and end with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.cases.ranks import eventually
from tests.controlplane.metrics.scraping import Scrape
from tests.support.plugin import Backend
from tests.support.ports import free_port
from tests.support.processes import Bootstrap, NotReady
from tests.wire.client import Client

GENEROUS_SECONDS = 60.0
Make = Callable[..., Bootstrap]


def scraped(make: Make, backend: Backend, **knobs: Any) -> tuple[Bootstrap, Callable[[], Scrape]]:
    port = free_port()
    process = make(backend, PDCP_METRICS_BOOTSTRAP_PORT=port, PDCP_PROBE_NETWORKS="none", **knobs)
    return process, lambda: Scrape.of(f"http://127.0.0.1:{port}/metrics")


def test_of_two_processes_one_leads_and_after_a_kill_the_other_tells_from_its_own_beginning(make_bootstrap, backend):
    one, first = scraped(make_bootstrap, backend)
    one.start()
    other, second = scraped(make_bootstrap, backend, kv_port=one.kv_port, engine_port=one.engine_port)
    other.launch().wait_standing_by()
    kv = Client(one.kv_port, headers={"X-PD-Instance": "p"})
    assert kv.put().status == 200
    before = first()
    assert before.value("pdcp_leading") == 1 and before.value("pdcp_registrations_total") == 1
    standing_by = second()
    assert standing_by.value("pdcp_leading") == 0
    assert not standing_by.series("pdcp_registrations_total") and not standing_by.series("pdcp_instance_healthy")
    one.kill9()
    eventually(lambda: second().value("pdcp_leading") == 1, within=GENEROUS_SECONDS)
    after = second()
    assert after.value("pdcp_term") > before.value("pdcp_term")
    assert after.value("pdcp_registrations_total") == 0 and after.value("pdcp_events_total", kind="launch.opened") == 0
    assert after.value("pdcp_instance_ranks_registered", pd_instance="p", role="prefill") == 1
    assert after.value("pdcp_ledger_revision") >= before.value("pdcp_ledger_revision")
    assert kv.put(page_size=32, rank_port=42_000).status == 200
    assert second().value("pdcp_events_total", kind="launch.opened") == 1
    assert other.terminate() == 0
    with pytest.raises(httpx.ConnectError):
        second()


def test_a_metrics_port_that_is_taken_stops_the_process_before_it_leads(make_bootstrap, sqlite_backend):
    one, scrape = scraped(make_bootstrap, sqlite_backend)
    one.start()
    other = make_bootstrap(sqlite_backend, PDCP_METRICS_BOOTSTRAP_PORT=one.env["PDCP_METRICS_BOOTSTRAP_PORT"])
    with pytest.raises(NotReady):
        other.start()
    assert other.child.exit_code == 3
    assert "is taken by" in other.log() and "PDCP_METRICS_BOOTSTRAP_PORT" in other.log()
    assert scrape().value("pdcp_leading") == 1
