"""Rules, dashboard and documentation name metrics and labels that there are; and all that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.metrics import catalogue
from controlplane.metrics.metric import Kind, Metric
from tests.deploy.rules import RULES, promtool, run
from tests.support.processes import ROOT

__all__ = ["promtool"]

METRICS = {metric.name: metric for metric in catalogue.every()}
DASHBOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
DOCS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
NAME = re.compile(r"\bpdcp_[a-z_]+")
OWN_OF_PROMETHEUS = {"le", "job", "instance"}
ROW = re.compile(r"^\| `(pdcp_[a-z_]+)` \| (\w+) \| ([^|]*) \| (.*) \|$", re.M)


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[str]:
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])
    yield from (annotation["expr"] for annotation in DASHBOARD["annotations"]["list"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def metric_of(name: str) -> Metric:
    """The metric of a series that is named in an expression."""
    found = METRICS.get(name) or METRICS.get(re.sub(r"_(bucket|sum|count)$", "", name))
    assert found is not None, f"there is no metric {name}"
    series = {Kind.HISTOGRAM: {f"{found.name}_{part}" for part in ("bucket", "sum", "count")}}
    assert name in series.get(found.kind, {found.name}), f"{name} is no series of the {found.kind} {found.name}"
    return found


def named(text: str) -> set[Metric]:
    return {metric_of(name) for name in NAME.findall(text)}


@pytest.mark.parametrize("expression", sorted({*expressions(), *(rule["expr"] for rule in RULES)}))
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str):
    found = named(expression)
    labels = {label for metric in found for label in metric.labels} | OWN_OF_PROMETHEUS
    used = set(re.findall(r"\b(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression))
    for grouped in re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression):
        used |= {label.strip() for label in grouped.split(",")}
    if not found:
        assert re.match(r"up\{|process_|rate\(process_", expression)
        return
    assert used <= labels | {"version", "process"}, f"{used - labels} is no label of {[m.name for m in found]}"


@pytest.mark.parametrize("expression", sorted(set(expressions()) | {rule["expr"] for rule in RULES}))
def test_a_counter_is_never_shown_as_it_stands(expression: str):
    for name in NAME.findall(expression):
        if metric_of(name).kind is Kind.COUNTER and "pdcp_probe_sweeps_total > 1" not in expression:
            assert re.search(rf"(rate|increase)\({name}\b", expression), f"{name} only grows: take its rate"


def test_promtool_can_read_every_expression_of_the_dashboard(promtool: str, tmp_path: Path):
    texts = [text for text in expressions() if not text.startswith("label_values")]
    rules = [
        {"record": f"pdcp:panel{number}", "expr": text.replace("$pd_instance", ".*")}
        for number, text in enumerate(texts)
    ]
    file = tmp_path / "dashboard.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    assert f"{len(rules)} rules found" in run(promtool, "check", "rules", "--lint=none", file)


def test_the_dashboard_and_the_rules_leave_no_metric_out():
    used = named(" ".join([*expressions(), *(rule["expr"] for rule in RULES)]))
    assert {metric.name for metric in METRICS.values()} - {metric.name for metric in used} == set()


def test_the_summary_of_an_alert_uses_only_labels_that_its_expression_keeps():
    for rule in RULES:
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = {label for metric in named(rule["expr"]) for label in metric.labels} | OWN_OF_PROMETHEUS
        if by := re.match(r"(?:sum|max|min) by \(([^)]*)\)", rule["expr"]):
            kept = {label.strip() for label in by[1].split(",")}
        assert used <= kept, rule["alert"]


def test_the_documentation_has_each_metric_as_it_is_declared_in_the_section_of_who_tells_it():
    sections = DOCS.split("\n## ")[1:]
    assert len(sections) == len(catalogue.PAGES)
    for section, module in zip(sections, catalogue.PAGES.values(), strict=True):
        wanted = [
            (metric.name, str(metric.kind), " ".join(f"`{label}`" for label in metric.labels), metric.says)
            for metric in catalogue.declared(module)
        ]
        assert [(name, kind, labels.strip(), says) for name, kind, labels, says in ROW.findall(section)] == wanted


def test_names_follow_the_conventions():
    assert len(METRICS) == len(catalogue.every()), "a name is declared twice"
    for name, metric in METRICS.items():
        assert re.fullmatch(r"pdcp_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM)
        assert list(metric.bounds) == sorted(set(metric.bounds))
        assert not OWN_OF_PROMETHEUS & set(metric.labels), "Prometheus would rename it"
        assert metric.says[0].isupper() or metric.says[0].isdigit() or metric.says.startswith("PUT")
        assert not metric.says.endswith(".")
        assert not re.search(r"_(ms|millis|minutes|percent|kb|mb)(_|$)", name), "seconds, bytes, ratios"


def test_nothing_that_is_declared_is_told_by_nobody():
    """Each declaration is used by name somewhere outside of the declarations."""
    sources = [path for path in (ROOT / "controlplane").rglob("*.py") if "migrations" not in path.parts]
    declarations = {Path(str(module.__file__)) for module in catalogue.PAGES.values()}
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources if path not in declarations)
    for module in catalogue.PAGES.values():
        for constant, value in vars(module).items():
            if isinstance(value, Metric):
                assert re.search(
                    rf"\b(?:names|common|of_web|of_bootstrap)\.{constant}\b|import .*\b{constant}\b", text
                ), constant


def test_the_panels_of_the_dashboard_do_not_overlap_and_say_what_they_show():
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & taken, panel["title"]
        taken |= own
    for panel in panels():
        assert panel["title"] and panel["targets"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
