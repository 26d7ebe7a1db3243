"""The alert rules, run by Prometheus's own promtool: each fires when it should, says what it should, and is quiet else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.alert_cases import CASES, Case, Series
from tests.deploy.rules import DEPLOY, RULES, RUNBOOKS, promtool, run
from tests.support.processes import ROOT

__all__ = ["promtool"]

EVERY = "15s"


def test_promtool_finds_nothing_wrong_with_the_rules_and_the_configuration(promtool):
    assert f"{len(RULES)} rules found" in run(promtool, "check", "rules", DEPLOY / "alerts.yml")
    assert "SUCCESS" in run(promtool, "check", "config", DEPLOY / "prometheus.yml")


def test_each_alert_fires_when_it_should_and_is_quiet_otherwise(promtool, tmp_path: Path):
    tests = [test for rule in RULES for test in _tests(rule, CASES[rule["alert"]])]
    file = {"rule_files": [str(DEPLOY / "alerts.yml")], "evaluation_interval": EVERY, "tests": tests}
    (tmp_path / "alerts.test.yml").write_text(yaml.safe_dump(file), encoding="utf-8")
    assert "SUCCESS" in run(promtool, "test", "rules", tmp_path / "alerts.test.yml")


def _tests(rule: dict[str, Any], case: Case) -> Iterator[dict[str, Any]]:
    said = {"summary": case.summary, "runbook_url": rule["annotations"]["runbook_url"]}
    fired = {"exp_labels": {**case.labels, **rule["labels"]}, "exp_annotations": said}
    yield _test(rule["alert"], case.fires, case.at, [fired])
    if "for" in rule:
        # Not at the first sight of it.
        yield _test(rule["alert"], case.fires, "0s", [])
    yield _test(rule["alert"], case.quiet, case.at, [])


def _test(alert: str, series: Series, at: str, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "interval": EVERY,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": expected}],
    }


def test_every_alert_has_a_case_and_every_case_an_alert():
    assert {rule["alert"] for rule in RULES} == CASES.keys()
    assert len(RULES) == len(CASES)


def test_every_alert_has_a_runbook_that_says_when_and_every_runbook_an_alert():
    pages = {path.name: path.read_text(encoding="utf-8") for path in RUNBOOKS.glob("*.md")}
    index = pages.pop("README.md")
    wanted = {}
    for rule in RULES:
        page = str(rule["annotations"]["runbook_url"]).removeprefix("docs/runbooks/")
        wanted[page] = rule["alert"]
        text = pages[page]
        assert text.startswith(f"# {rule['alert']}\n")
        hold = f", for {rule['for']}" if "for" in rule else ""
        assert (
            f"**When:** `{' '.join(rule['expr'].split())}`{hold}. **Severity:** {rule['labels']['severity']}." in text
        )
        assert "**Look**" in text and "**Do**" in text
        assert f"[{rule['alert']}]({page})" in index
    assert wanted.keys() == pages.keys()


def test_runbooks_name_commands_and_lines_of_the_log_that_there_are():
    commands = {path.stem for path in (ROOT / "controlplane" / "management" / "commands").glob("*.py")}
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "controlplane").rglob("*.py"))
    for path in RUNBOOKS.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\bmanage\.py (\w+)", text)) <= commands, path.name
        for word in re.findall(r"`([a-z]+(?:_[a-z]+)+|PDCP_[A-Z_]+)`", text):
            if not word.startswith(("pdcp_", "pg_stat", "process_", "max_")):
                assert word in source, f"{path.name}: {word}"


def test_runbooks_name_only_alerts_that_there_are():
    known = {rule["alert"] for rule in RULES}
    for path in RUNBOOKS.glob("*.md"):
        named = set(re.findall(r"\bPdcp[A-Za-z]+", path.read_text(encoding="utf-8")))
        assert named <= known, f"{path.name}: {named - known}"
