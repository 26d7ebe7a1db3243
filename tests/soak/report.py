"""docs/soak.md: what ran when, of which commit, on which machine, what was measured, what held.

Each test has a row (of all its variants), kept as JSON beside the page. A whole run renews all rows, a part those that it ran.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.support.processes import ROOT

PATH = ROOT / "docs" / "soak.md"
HEAD = """# Soak

Written by `make soak`: the long versions of the crash, chaos and load tests. It takes hours, so a part of it
(`make soak TESTS=path`) renews the rows of what it ran: each says when that was, and of which commit.

- Machine: {machine}
- Result: {result}

| what | result | took | numbers | when | commit |
|---|---|---|---|---|---|
"""


@dataclass(slots=True)
class Item:
    """One run of one variant of a test."""

    title: str = ""
    variant: str = ""
    outcome: str | None = None
    seconds: float = 0.0
    numbers: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Row:
    """One test, with all of its variants, as it was last run."""

    title: str
    passed: int
    of: int
    seconds: float
    numbers: list[str]
    when: str
    commit: str

    @property
    def result(self) -> str:
        return (
            f"{self.passed} of {self.of} passed" if self.passed == self.of else f"**{self.passed} of {self.of} passed**"
        )

    def line(self) -> str:
        numbers = "<br>".join(self.numbers)
        return f"| {self.title} | {self.result} | {self.seconds:.0f} s | {numbers} | {self.when} | {self.commit} |\n"


def row_of(items: list[Item], *, of: int, when: str, commit: str) -> Row:
    """`of`: how many variants the test has; one that was not run did not pass."""
    numbers = [
        f"{f'{item.variant}: ' if item.variant and of > 1 else ''}{what}: {found}"
        for item in items
        for what, found in item.numbers
    ]
    passed = sum(item.outcome == "passed" for item in items)
    return Row(items[0].title, passed, of, sum(item.seconds for item in items), numbers, when, commit)


def write(rows: dict[str, Row], existing: set[str], path: Path = PATH) -> Path:
    """Renew these rows; those of tests that are not among `existing` (all when it is empty: unknown) are left out."""
    kept = path.with_suffix(".json")
    known = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    merged = {node: Row(**said) for node, said in known.items()} | rows
    merged = {node: row for node, row in sorted(merged.items()) if not existing or node in existing}
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({node: asdict(row) for node, row in merged.items()}, indent=1) + "\n", encoding="utf-8")
    result = f"{sum(row.passed for row in merged.values())} of {sum(row.of for row in merged.values())} passed"
    lines = "".join(row.line() for row in merged.values())
    path.write_text(HEAD.format(machine=machine(), result=result) + lines, encoding="utf-8")
    return path


def now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def commit() -> str:
    """The commit that is checked out; with a + when files differ from it."""
    try:
        asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def share() -> float:
    """SOAK_SHARE=0.1 runs a tenth of everything, to try it out."""
    return float(os.environ.get("SOAK_SHARE", "1"))


def machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    name = next(
        (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine()
    )
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({name}), {memory:.0f} GiB, {system}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
