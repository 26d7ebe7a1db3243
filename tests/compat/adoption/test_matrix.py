"""docs/adoption.md and the tests beside this file say the same: each cell is proven, and each proof has its cell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.processes import ROOT

PAGE = ROOT / "docs" / "adoption.md"
ROW = re.compile(
    r"^\| (?P<engine>[^|]+) \| (?P<router>[^|]+) \| (?P<level>[^|]+) \| `(?P<file>\w+\.py)::(?P<test>\w+)` \|$", re.M
)
CELLS = {
    ("unmodified", "stock sglang-router"): {"observed", "relay on the prefill's host"},
    ("unmodified", "our gateway"): {"observed; authority for decodes", "relay; authority for decodes"},
    ("with plugin", "stock sglang-router"): {"reported", "authority with relay"},
    ("with plugin", "our gateway"): {"reported", "authority"},
}
"""What must be there: by engine and by whoever chooses workers."""


def rows() -> list[dict[str, str]]:
    return [found.groupdict() for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


def proofs_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_cell_is_there():
    found: dict[tuple[str, str], set[str]] = {}
    for row in rows():
        found.setdefault((row["engine"], row["router"]), set()).add(row["level"])
    assert found == CELLS


def test_every_proof_is_a_test_and_every_test_proves_a_cell():
    told = {(row["file"], row["test"]) for row in rows()}
    here = Path(__file__).parent
    there = {(name, test) for name in ("test_unmodified.py", "test_plugin.py") for test in proofs_in(here / name)}
    assert told == there


def test_the_pages_of_the_ways_are_linked_and_their_variables_exist():
    text = PAGE.read_text(encoding="utf-8")
    for page in re.findall(r"\]\((\w+\.md)\)", text):
        assert (PAGE.parent / page).is_file(), page
    told = set(re.findall(r"\bPD_[A-Z_]+\b", text + (PAGE.parent / "plugin.md").read_text(encoding="utf-8")))
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workers").rglob("*.py"))
    assert told and all(f'"{name}"' in source for name in told), told
    read = set(re.findall(r'given(?:\.get)?[\[(]"(PD_[A-Z_]+)"|_number\(given, "(PD_[A-Z_]+)"', source))
    assert {name for pair in read for name in pair if name} <= told, "each variable is described"
