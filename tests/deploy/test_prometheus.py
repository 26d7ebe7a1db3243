"""A real Prometheus with the configuration that is deployed: it scrapes, its rules run, and every panel can be drawn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.cases.ranks import eventually
from tests.controlplane.web.test_metrics import Scraped
from tests.deploy.rules import DEPLOY, RULES
from tests.deploy.test_names import expressions
from tests.support.plugin import Backend
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.wire.client import Client

GENEROUS_SECONDS = 60.0


class Prometheus:
    """Scrapes every second."""

    def __init__(self, directory: Path, targets: dict[str, int]) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(DEPLOY / name) for name in config["rule_files"]]
        for job in config["scrape_configs"]:
            job["static_configs"] = [{"targets": [f"127.0.0.1:{targets[job['job_name']]}"]}]
        (directory / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        self._url = f"http://127.0.0.1:{(port := free_port())}/api/v1"
        argv = [
            str(shutil.which("prometheus")),
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self.child = Child(argv, env=clean_env(), log=directory / "log")

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self._url}/{path}", params=query, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def answers(self) -> bool:
        try:
            return bool(self.query("up"))
        except (httpx.TransportError, ValueError):
            return False


@pytest.fixture
def watched(
    sqlite_backend: Backend, make_bootstrap: Callable[..., Any], tmp_path: Path
) -> Iterator[tuple[Prometheus, Client]]:
    """A bootstrap and a web process, no Celery worker, and a Prometheus that looks for all three."""
    if shutil.which("prometheus") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("install the Debian package prometheus")
    port = free_port()
    bootstrap = make_bootstrap(sqlite_backend, PDCP_METRICS_BOOTSTRAP_PORT=port, PDCP_PROBE_NETWORKS="none").start()
    web = Scraped(sqlite_backend, tmp_path, 1)
    web.start()
    targets = {
        "pdcp-bootstrap": port,
        "pdcp-web": web.metrics_port,
        "pdcp-fleet": web.metrics_port,
        "pdcp-celery": free_port(),
    }
    (tmp_path / "prometheus").mkdir()
    prometheus = Prometheus(tmp_path / "prometheus", targets)
    try:
        eventually(prometheus.answers, within=GENEROUS_SECONDS)
        yield prometheus, Client(bootstrap.kv_port, headers={"X-PD-Instance": "p"})
    finally:
        prometheus.child.kill9()
        web.kill9()


def test_it_scrapes_the_rules_run_and_every_panel_can_be_drawn(watched: tuple[Prometheus, Client]):
    prometheus, kv = watched
    assert kv.put().status == 200

    def up() -> bool:
        found = {one["metric"]["job"]: one["value"][1] for one in prometheus.query("up")}
        return found == {"pdcp-bootstrap": "1", "pdcp-web": "1", "pdcp-fleet": "1", "pdcp-celery": "0"}

    eventually(up, within=GENEROUS_SECONDS)
    (healthy,) = eventually(lambda: prometheus.query("pdcp_instance_healthy"), within=GENEROUS_SECONDS)
    assert healthy["value"][1] == "1"
    assert healthy["metric"].keys() == {"__name__", "job", "instance", "pd_instance", "role"}
    # A label of ours that it had to rename.
    assert not [name for name in prometheus.ask("labels") if name.startswith("exported_")]
    (joined,) = eventually(
        lambda: prometheus.query("pdcp_instance_routable and on (pd_instance) pdcp_instance_healthy"), within=60
    )
    assert joined["value"][1] == "1"
    for expression in expressions():
        if not expression.startswith("label_values"):
            prometheus.query(expression.replace("$pd_instance", ".*"))

    def evaluated() -> bool:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        assert not [rule["name"] for rule in rules if rule["health"] == "err"]
        return {rule["name"] for rule in rules if rule["health"] == "ok"} == {rule["alert"] for rule in RULES}

    eventually(evaluated, within=GENEROUS_SECONDS)
    eventually(
        lambda: prometheus.query('ALERTS{alertname="PdcpTargetDown", job="pdcp-celery"}'), within=GENEROUS_SECONDS
    )
    assert not prometheus.query('ALERTS{alertname="PdcpNoLeader"}')
