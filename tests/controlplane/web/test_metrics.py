"""Each web process tells of itself, all of them tell the same of the fleet, and only to who may read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.db import OperationalError
from websockets.sync.client import connect

from controlplane.commands import gateways, reports
from controlplane.domain.errors import Refused
from controlplane.metrics.web import REPORTED
from controlplane.queries import figures, own_figures
from controlplane.web import metrics
from tests.cases.ranks import eventually
from tests.controlplane.metrics.scraping import Scrape
from tests.support.operator import make_token
from tests.support.plugin import Backend
from tests.support.ports import free_port
from tests.support.web import Web

SECRET = "only-for-scrapes"


class Scraped(Web):
    """A web process with an address for its metrics."""

    def __init__(self, backend: Backend, directory: Path, number: int, **knobs: object) -> None:
        self.metrics_port = free_port()
        ours = {"PDCP_METRICS_WEB_PORT": self.metrics_port, **knobs}
        super().__init__(backend.env, log=directory / f"web-{number}.log", **ours)

    def scrape(self, path: str = "/metrics") -> Scrape:
        return Scrape.of(f"http://127.0.0.1:{self.metrics_port}{path}")


@pytest.fixture
def webs(sqlite_backend: Backend, tmp_path: Path) -> Iterator[Callable[..., list[Scraped]]]:
    """`webs(2, PDCP_X=…)` -> so many web processes on one database."""
    started: list[Scraped] = []

    def start(count: int, **knobs: object) -> list[Scraped]:
        for number in range(count):
            started.append(Scraped(sqlite_backend, tmp_path, number, **knobs))
            started[-1].start()
        return started

    yield start
    for web in started:
        web.kill9()


def test_of_two_processes_each_counts_its_own_requests_and_both_tell_the_same_of_the_fleet(webs):
    one, other = webs(2)
    for web, times in ((one, 3), (other, 5)):
        for _ in range(times):
            assert httpx.get(f"{web.url}/api/v1/fleet", timeout=30).status_code == 401
            assert httpx.get(f"{web.url}/sign-in/", timeout=30).status_code == 200
    for web, times in ((one, 3), (other, 5)):
        said = web.scrape()
        assert said.value("pdcp_http_requests_total", area="api", method="GET", status="401") == times
        assert said.value("pdcp_http_requests_total", area="page", method="GET", status="200") == times
        assert said.value("pdcp_http_request_seconds_count", area="api") == times
        assert said.value("pdcp_http_requests_under_way") == 0 and said.value("pdcp_facts_readable") == 1
        assert "process_resident_memory_bytes" in said.text
    fleets = [web.scrape("/metrics/fleet") for web in (one, other)]
    # Without Redis: nothing is known of its queue.
    assert fleets[0].value("pdcp_broker_reachable") == 0 and fleets[0].get("pdcp_queue_length") is None
    assert fleets[0].values == fleets[1].values and not fleets[0].series("process_cpu_seconds_total")
    assert fleets[0].value("pdcp_instances", role="prefill", intent="enabled") == 0


def test_on_the_web_port_only_those_who_may_read_are_told(webs, sqlite_backend):
    (web,) = webs(1, PDCP_METRICS_TOKEN=SECRET)
    reader = make_token(sqlite_backend.env, "prometheus", "read")
    worker = make_token(sqlite_backend.env, "worker", "register")
    for path in ("/metrics", "/metrics/fleet"):
        url = f"{web.url}{path}"
        for bearer in (None, "wrong", worker):
            headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
            refused = httpx.get(url, headers=headers, timeout=30)
            assert refused.status_code == 401 and "pdcp_" not in refused.text.lower().replace("pdcp_metrics_token", "")
        for bearer in (reader, SECRET):
            assert "# TYPE pdcp_" in Scrape.of(url, authorization=f"Bearer {bearer}").text
        assert httpx.post(url, timeout=30).status_code in (403, 405)
        # Its own address knows this one token alone.
        own = f"http://127.0.0.1:{web.metrics_port}{path}"
        assert httpx.get(own, headers={"authorization": f"Bearer {reader}"}, timeout=30).status_code == 401
        assert httpx.get(own, headers={"authorization": f"Bearer {SECRET}"}, timeout=30).status_code == 200


def test_live_sockets_are_told_while_they_are_open_and_how_they_ended(webs, sqlite_backend):
    (web,) = webs(1)
    token = make_token(sqlite_backend.env, "reader", "read")
    headers = {"Authorization": f"Bearer {token}"}
    with connect(web.socket_url, additional_headers=headers) as socket:
        socket.recv(timeout=60)
        said = web.scrape()
        assert said.value("pdcp_sockets") == 1 and said.value("pdcp_socket_limit") == 1000
        assert said.value("pdcp_ledger_reader_behind_revisions", reader="stream") == 0
        socket.send("hello")
        eventually(lambda: web.scrape().value("pdcp_sockets_ended_total", code="4400") == 1, within=30)
    eventually(lambda: web.scrape().value("pdcp_sockets") == 0, within=30)
    with connect(web.socket_url) as nobody, pytest.raises(Exception, match="4401"):
        nobody.recv(timeout=60)
    eventually(lambda: web.scrape().value("pdcp_sockets_ended_total", code="4401") == 1, within=30)


def test_a_port_that_is_taken_stops_the_process_with_a_sentence(webs, sqlite_backend, tmp_path):
    (web,) = webs(1)
    second = Scraped(sqlite_backend, tmp_path, 2)
    second.env["PDCP_METRICS_WEB_PORT"] = str(web.metrics_port)
    with pytest.raises(AssertionError):
        second.start()
    assert second.child.exit_code == 3
    assert f"port {web.metrics_port} on 127.0.0.1 is taken by" in second.log()
    assert "PDCP_METRICS_WEB_PORT" in second.log()


def test_when_a_part_cannot_be_read_the_rest_is_told_and_the_scrape_says_so(on_backend, monkeypatch):
    def away(**_: object) -> None:
        raise OperationalError("the database is away")

    assert Scrape.here(metrics.fleet()).value("pdcp_facts_readable") == 1
    monkeypatch.setattr(own_figures, "told", away)
    said = Scrape.here(metrics.fleet())
    assert said.value("pdcp_facts_readable") == 0 and not said.series("pdcp_alarms")
    assert said.series("pdcp_task_rounds_total") and said.series("pdcp_instances")
    monkeypatch.setattr(figures, "fleet", away)
    said = Scrape.here(metrics.fleet())
    assert not said.series("pdcp_instances") and said.series("pdcp_task_rounds_total")


def test_requests_that_a_gateway_reports_are_counted_by_how_they_ended(on_backend):
    gateways.join("gw", actor="token:gw")
    before = Scrape.here(REPORTED.samples())
    reports.report_outcomes("gw", [{"outcome": "ok", "count": 7}, {"outcome": "prefill_failed", "count": 2}])
    with pytest.raises(Refused):
        reports.report_outcomes("nobody", [{"outcome": "ok", "count": 9}])
    grown = Scrape.here(REPORTED.samples()).grown_since(before)
    assert grown["pdcp_reported_requests_total{outcome=ok}"] == 7
    assert grown["pdcp_reported_requests_total{outcome=prefill_failed}"] == 2
