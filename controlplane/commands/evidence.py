"""What workers tell of the way of single rooms: stored as far as there is room, all failures and a share of the rest."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from django.conf import settings
from django.db import connections, transaction
from django.db.models import Max, Min

from controlplane.databases import TRAFFIC
from controlplane.domain.claims import PASSED
from controlplane.domain.errors import Refused
from controlplane.domain.reports import Batch, EvidenceReport, read_batch, read_evidence, worth_keeping
from controlplane.ledger.failures import tried_again
from controlplane.metrics.web import REPORTED_RUNGS, RUNG_SECONDS
from controlplane.models import ReportBatch, RoomLookup, RoomReport

from .by_address import named
from .keeping import before, keeping
from .reports import MAX_SOURCE, Item, known_instances, store
from .trimming import Budget, count, delete, in_pieces

PIECE = 2000
FULL = 1.25
"""So far above the limit, between two rounds that trim, failures alone are kept; twice as far above, nothing is."""

APPEND = """
INSERT INTO controlplane_roomreport
 (room, instance, rung, result, detail, source, speaker, launch_token, took_seconds, at, received_at) VALUES {rows}"""

# With the reports in one transaction: nothing is written for a batch that was counted before.
TAKE = """
INSERT INTO controlplane_reportbatch (run, source, number, kept, left_out, received_at) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (run, source) DO UPDATE SET number = excluded.number, kept = excluded.kept, left_out = excluded.left_out,
 received_at = excluded.received_at
WHERE excluded.number > controlplane_reportbatch.number"""
MOST_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """How many items were kept and left out, and which instances nobody knows here (what was said of them is not kept).
    `repeated`: the batch had come before, and this is what was said then."""

    kept: int
    left_out: int
    unknown: tuple[str, ...] = ()
    repeated: bool = False


def report_evidence(
    source: str,
    items: Sequence[Item],
    now: float | None = None,
    *,
    speaker: str = "",
    batch: Mapping[str, Any] | None = None,
) -> Kept:
    """A numbered `batch` that comes again, since its answer was lost, is counted once. One without a number is stored twice,
    and says the same: the last word of a worker on a rung counts. For an instance the address of one of its ranks may stand.
    """
    at = time.time() if now is None else now
    if not source or len(source) > MAX_SOURCE or not source.isprintable():
        raise Refused(f"the source must be named, in at most {MAX_SOURCE} printable characters", code="malformed")
    numbered = read_batch(batch)
    reports = named(read_evidence(items))
    known = known_instances(report.instance for report in reports)
    ours = [report for report in reports if report.instance in known]
    wanted = _with_room(worth_keeping(ours, settings.PDCP_EVIDENCE_SHARE))
    rows = [_row(report, source, speaker[:150], at) for report in wanted]
    left_out = len(ours) - len(rows)
    strangers = tuple(sorted({report.instance for report in reports} - known))

    def work() -> bool:
        with transaction.atomic(using=TRAFFIC):
            if numbered is not None and not _take(numbered, source, len(rows), left_out, at):
                return False
            store(TRAFFIC, APPEND, rows)
            return True

    if (rows or numbered is not None) and not tried_again(work):
        assert numbered is not None
        return Kept(*_kept_before(numbered, source), strangers, repeated=True)
    for report in ours:
        REPORTED_RUNGS.add(report.rung, "passed" if report.result == PASSED else "failed")
        if report.took is not None and report.result == PASSED:
            RUNG_SECONDS.observe(report.took, report.rung)
    return Kept(len(rows), left_out, strangers)


def _take(batch: Batch, source: str, kept: int, left_out: int, at: float) -> bool:
    """Whether this batch is new; then it is the last one of its run."""
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(TAKE, [batch.run, source, batch.number, kept, left_out, at])
        return int(cursor.rowcount) == 1


def _kept_before(batch: Batch, source: str) -> tuple[int, int]:
    """What was said of it then; of an older one than the last nobody knows."""
    last = ReportBatch.objects.using(TRAFFIC).filter(run=batch.run, source=source, number=batch.number)
    return last.values_list("kept", "left_out").first() or (0, 0)


def forget_old(*, now: float, budget: Budget | None = None) -> int:
    """Delete what is older than it is kept, and what is more than there may be; how many rows."""
    spent, old = budget or Budget(), before(now, keeping().evidence)
    gone = in_pieces(lambda: _cut(RoomReport, "received_at", old), PIECE, spent)
    gone += in_pieces(lambda: _cut(RoomLookup, "asked_at", old), PIECE, spent)
    _forget_runs(old, spent)
    return count("evidence", gone, now=now)


def _forget_runs(old: float | None, budget: Budget) -> None:
    """Of processes that are gone, as far as can be known: those that told nothing for long, or more than there may be."""
    rows = ReportBatch.objects.using(TRAFFIC)
    surplus = rows.order_by("-received_at").values_list("received_at", flat=True)[MOST_RUNS : MOST_RUNS + 1].first()
    until = max((at for at in (old, surplus) if at is not None), default=None)
    if until is not None:
        delete(ReportBatch._meta.db_table, "received_at <= %s", [until], budget=budget, alias=TRAFFIC)


def _row(report: EvidenceReport, source: str, speaker: str, at: float) -> tuple[object, ...]:
    said = (report.room, report.instance, report.rung, report.result, report.detail)
    return (*said, source, speaker, report.launch_token, report.took, at - report.age, at)


def _with_room(reports: list[EvidenceReport]) -> list[EvidenceReport]:
    """Whoever reports faster than is trimmed does not fill the disk."""
    limit = settings.PDCP_EVIDENCE_LIMIT
    first, last = _ends(RoomReport)
    there = last - first if first is not None else 0
    if there < limit * FULL:
        return reports
    return [report for report in reports if report.result != PASSED] if there < limit * FULL * 2 else []


def _ends(model: type[RoomReport] | type[RoomLookup]) -> tuple[int | None, int]:
    ends = model._default_manager.using(TRAFFIC).aggregate(first=Min("id"), last=Max("id"))
    return ends["first"], ends["last"] or 0


def _cut(model: type[RoomReport] | type[RoomLookup], moment: str, old: float | None) -> int:
    """The head, up to the first row that is neither old nor one too many: there is no index by time."""
    first, last = _ends(model)
    if first is None:
        return 0
    surplus = last - settings.PDCP_EVIDENCE_LIMIT
    head = model._default_manager.using(TRAFFIC).order_by("id").values_list("id", moment)[:PIECE]
    gone = list(takewhile(lambda row: row[0] <= surplus or (old is not None and row[1] < old), head))
    if not gone:
        return 0
    with connections[TRAFFIC].cursor() as cursor:
        cursor.execute(f"DELETE FROM {model._meta.db_table} WHERE id <= %s", [gone[-1][0]])
        return int(cursor.rowcount)
