"""The alert rules as they are deployed, and Prometheus's own promtool to try them with."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml

from tests.support.processes import ROOT

DEPLOY, RUNBOOKS = ROOT / "deploy", ROOT / "docs" / "runbooks"
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "promtool is missing: install the Debian package prometheus"
        )
    return str(found)


def run(promtool: str, *arguments: object) -> str:
    done = subprocess.run([promtool, *map(str, arguments)], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
