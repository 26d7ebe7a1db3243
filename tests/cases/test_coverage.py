"""Every public report of this layer's areas is tested or waits for something that is named."""

import ast
import json
import re
from pathlib import Path

from tests.cases.waiting import WAITING

HERE = Path(__file__).parent
CASES = {case["id"]: case for case in json.loads((HERE / "open.json").read_text(encoding="utf-8"))}
AREAS = {
    "directory",
    "readiness",
    "topology",
    "rooms",
    "engine-info",
    "network/addr",
    "security",
    "router",
    "health/stale",
    "ops-visibility",
    "scale",
}
OURS = {id_ for id_, case in CASES.items() if case["area"] in AREAS}


def proven() -> set[str]:
    """The case ids that stand in the names of tests."""
    names = (
        node.name
        for path in sorted(HERE.glob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    )
    found = (re.match(r"test_([A-Z]+)_(\d+)_", name) for name in names)
    return {f"{match[1]}-{match[2]}" for match in found if match}


def test_every_case_of_our_areas_is_tested_or_waits_for_something():
    assert OURS - proven() - WAITING.keys() == set()


def test_every_tested_and_every_waiting_case_exists():
    assert proven() - CASES.keys() == set()
    assert WAITING.keys() - OURS == set()
    assert all(WAITING.values())
