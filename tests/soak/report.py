"""docs/soak.md: what ran, on which machine, what was measured, what held."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.support.processes import ROOT

PATH = ROOT / "docs" / "soak.md"
HEAD = """# Soak

Written by `make soak`: the long versions of the crash, chaos and load tests. Numbers are of this run on this machine.

- Date: {date}
- Machine: {machine}
- Result: {result}

| what | result | took | numbers |
|---|---|---|---|
"""


@dataclass(slots=True)
class Item:
    title: str = ""
    outcome: str | None = None
    seconds: float = 0.0
    numbers: list[tuple[str, str]] = field(default_factory=list)


class Report:
    def __init__(self) -> None:
        self.items: dict[str, Item] = {}

    def item(self, node: str) -> Item:
        return self.items.setdefault(node, Item())

    def write(self, path: Path = PATH) -> Path:
        path.parent.mkdir(exist_ok=True)
        outcomes = [item.outcome for item in self.items.values()]
        result = f"{outcomes.count('passed')} of {len(outcomes)} passed"
        if share() != 1:
            result += f" (a trial: {share():g} of the full length)"
        text = HEAD.format(date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine=machine(), result=result)
        for item in self.items.values():
            numbers = "<br>".join(f"{what}: {found}" for what, found in item.numbers)
            text += f"| {item.title} | {item.outcome} | {item.seconds:.0f} s | {numbers} |\n"
        path.write_text(text, encoding="utf-8")
        return path


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
