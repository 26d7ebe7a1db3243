"""The outcome: one row a case, as a table and in docs/benchmarks.md and docs/benchmarks.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests.bench.load import Run


@dataclass(frozen=True, slots=True)
class Bar:
    """What must be reached: a ratio (or a plain number) from one side, and a ratio of the p99."""

    at_least: float | None = None
    at_most: float | None = None
    p99_at_most: float | None = None

    def met_by(self, number: float | None) -> bool | None:
        if number is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or number >= self.at_least) and (self.at_most is None or number <= self.at_most)

    def p99_met_by(self, ratio: float | None) -> bool | None:
        return None if ratio is None or self.p99_at_most is None else ratio <= self.p99_at_most


@dataclass(frozen=True, slots=True)
class Row:
    """One case as it stands in the JSON. Rates are medians, p99 the best alternation of each side."""

    name: str
    backend: str
    connections: int | None
    unit: str
    ours: float | None
    theirs: float | None
    ratio: float | None
    p50_ours_ms: float | None = None
    p50_theirs_ms: float | None = None
    p99_ours_ms: float | None = None
    p99_theirs_ms: float | None = None
    cpu_ours_us: float | None = None
    cpu_theirs_us: float | None = None
    rss_ours_mb: float | None = None
    rss_theirs_mb: float | None = None
    refused: int = 0
    broken: int = 0
    foreign_cores: float | None = None
    bar: str | None = None
    met: bool | None = None
    p99_bar: str | None = None
    p99_met: bool | None = None
    note: str = ""


def compared(
    name: str, backend: str, connections: int, ours: list[Run], theirs: list[Run], bar: Bar, note: str = ""
) -> Row:
    """The row of a case under load."""
    rate, their_rate = median(run.per_second for run in ours), median(run.per_second for run in theirs)
    p99, their_p99 = min(run.p99 for run in ours), min(run.p99 for run in theirs)
    ratio = rate / their_rate if their_rate else None
    return Row(
        name=name,
        backend=backend,
        connections=connections,
        unit="req/s",
        ours=round(rate, 1),
        theirs=round(their_rate, 1),
        ratio=_rounded(ratio),
        p50_ours_ms=_rounded(median(run.p50 for run in ours)),
        p50_theirs_ms=_rounded(median(run.p50 for run in theirs)),
        p99_ours_ms=_rounded(p99),
        p99_theirs_ms=_rounded(their_p99),
        cpu_ours_us=round(median(run.cpu_us for run in ours), 1),
        cpu_theirs_us=round(median(run.cpu_us for run in theirs), 1),
        rss_ours_mb=round(ours[-1].rss_mb, 1),
        rss_theirs_mb=round(theirs[-1].rss_mb, 1),
        refused=sum(run.refused for run in ours),
        broken=sum(run.broken for run in ours),
        foreign_cores=round(max(run.foreign_cores for run in ours + theirs), 2),
        bar=_said(bar),
        met=bar.met_by(ratio),
        p99_bar=None if bar.p99_at_most is None else f"≤ {bar.p99_at_most:g}×",
        p99_met=bar.p99_met_by(p99 / their_p99 if their_p99 else None),
        note=note,
    )


def plain(
    name: str,
    backend: str,
    unit: str,
    ours: float,
    theirs: float | None = None,
    *,
    bar: Bar | None = None,
    of_ratio: bool = False,
    note: str = "",
) -> Row:
    """The row of a single number: seconds, bytes, megabytes."""
    bar = bar or Bar()
    ratio = ours / theirs if theirs else None
    return Row(
        name=name,
        backend=backend,
        connections=None,
        unit=unit,
        ours=_rounded(ours),
        theirs=_rounded(theirs),
        ratio=_rounded(ratio),
        bar=_said(bar, suffix="×" if of_ratio else f" {unit}"),
        met=bar.met_by(ratio if of_ratio else ours),
        note=note,
    )


def table(rows: list[Row]) -> str:
    """A Markdown table, readable in a terminal too."""
    head = (
        "case",
        "database",
        "conn.",
        "ours",
        "SGLang",
        "ratio",
        "p50 ms",
        "p99 ms",
        "CPU µs",
        "RSS MB",
        "bar",
    )
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([shown[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *shown[1:]])


def write(rows: list[Row], directory: Path, *, machine: str, date: str, quick: bool, took: float) -> None:
    """docs/benchmarks.json and docs/benchmarks.md."""
    head = {"machine": machine, "date": date, "quick": quick, "took_seconds": round(took)}
    directory.mkdir(exist_ok=True)
    cases = [asdict(row) for row in rows]
    foreign = max((row.foreign_cores or 0.0 for row in rows), default=0.0)
    (directory / "benchmarks.json").write_text(
        json.dumps({**head, "cases": cases}, indent=1, ensure_ascii=False) + "\n"
    )
    (directory / "benchmarks.md").write_text(
        HEAD.format(machine=machine, date=date, size="QUICK=1" if quick else "full", minutes=took / 60, foreign=foreign)
        + table(rows)
        + f"\n\n{summary(rows)}\n"
        + (f"\n## Notes\n\n{said}" if (said := notes(rows)) else "")
    )


def notes(rows: list[Row]) -> str:
    """What there is to say beside the numbers, a line a row."""
    return "".join(f"- {row.name} ({row.backend}): {row.note}\n" for row in rows if row.note)


def summary(rows: list[Row]) -> str:
    verdicts = [verdict for row in rows for verdict in (row.met, row.p99_met) if verdict is not None]
    missed = [
        f"- missed: {row.name}, {row.backend}"
        + (f", {row.connections} connections" if row.connections else "")
        + f": {what}"
        for row in rows
        for what, verdict in (
            (f"{_missed(row)}, bar {row.bar}", row.met),
            (f"p99 {_pair(row.p99_ours_ms, row.p99_theirs_ms)} ms, bar {row.p99_bar}", row.p99_met),
        )
        if verdict is False
    ]
    return "\n".join([f"{sum(verdicts)} of {len(verdicts)} bars met.", *([""] if missed else []), *missed])


HEAD = """# Benchmarks

Written by `make bench`; numbers of another machine are other numbers.
Each case alternates our server and SGLang 0.5.23's own in one run, three times, on one machine with the load
generator. Ours writes everything to its database before it answers; SGLang's keeps everything in memory.
Rates and p50 are medians, p99 is the best of the three alternations, CPU is per request over all processes of
a server (PostgreSQL's included), pairs are ours / SGLang's. The heap of SGLang's servers is frozen
(`gc.freeze()`), so that ours is not credited for their garbage collection.

{machine}; {date}; {size}, {minutes:.0f} minutes. Other programs used up to {foreign:.1f} cores meanwhile.

"""


def _cells(row: Row) -> tuple[str, ...]:
    marks = {True: " ✓", False: " ✗", None: ""}
    bars = [f"{bar}{marks[met]}" for bar, met in ((row.bar, row.met), (row.p99_bar, row.p99_met)) if bar]
    errors = f" ({row.refused} refused, {row.broken} broken)" if row.refused or row.broken else ""
    return (
        row.name + errors,
        row.backend,
        str(row.connections or ""),
        f"{_number(row.ours)} {row.unit}",
        _number(row.theirs),
        f"{row.ratio:.2f}×" if row.ratio is not None else "",
        _pair(row.p50_ours_ms, row.p50_theirs_ms),
        _pair(row.p99_ours_ms, row.p99_theirs_ms),
        _pair(row.cpu_ours_us, row.cpu_theirs_us),
        _pair(row.rss_ours_mb, row.rss_theirs_mb),
        ", p99 ".join(bars) if row.bar else "".join(f"p99 {bar}" for bar in bars),
    )


def _missed(row: Row) -> str:
    """What the bar was held against: the ratio, or our own number."""
    of_ratio = row.bar is not None and row.bar.endswith("×")
    return f"{row.ratio:.2f}×" if of_ratio and row.ratio is not None else f"{_number(row.ours)} {row.unit}"


def _said(bar: Bar, suffix: str = "×") -> str | None:
    if bar.at_least is not None:
        return f"≥ {bar.at_least:g}{suffix}"
    return f"≤ {bar.at_most:.3g}{suffix}" if bar.at_most is not None else None


def _pair(ours: float | None, theirs: float | None) -> str:
    return "" if ours is None else f"{_number(ours)} / {_number(theirs)}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
