"""One look at every open drain: ask the engines, weigh what everybody said, keep what changed.

All that a drain must remember is in its row, and a row is written only as it was read (compare-and-set): two who look
at once, or one that is killed between two steps, do no harm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from django.db import DatabaseError

from controlplane.access import secrets
from controlplane.databases import FACTS
from controlplane.domain.drain import Progress, Verdict
from controlplane.domain.trail import Trail, extend
from controlplane.domain.witness import Reading, open_in_all
from controlplane.ledger.append import NewEvent
from controlplane.models import ALL_GROUPS, Drain
from controlplane.probes.loads import Engine, Loads, ask_all
from controlplane.probes.outgoing import policy
from controlplane.queries.witnesses import Case, cases, engines_of_open_drains, evaluate, own_ports

from .noting import record_and_note
from .transaction import record

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 3.0
"""Readings that change nothing are kept this often, so that people see that somebody looks."""

KEPT_READINGS = 128
LATEST_SECONDS = 60.0


def check(now: float | None = None) -> int:
    """Look once; how many drains changed their progress or what they wait for."""
    clock = _clock(now)
    asked_at = clock()
    loads = _ask(clock)
    at = clock()
    changed = 0
    for case in cases(loads, now=at):
        if _is_overtaken(case, asked_at):
            continue
        try:
            changed += _keep(case, evaluate(case, now=at), loads.get(case.row.instance, Loads()), asked_at, at)
        except DatabaseError as problem:
            # The others need not wait for what is in the way of this one; it is looked at again in a second.
            log.warning("drain_not_kept", drain=case.row.pk, instance=case.row.instance, problem=str(problem)[:300])
    return changed


def _clock(now: float | None) -> Callable[[], float]:
    """Starts at `now`, and goes on as time does: readings are dated one by one while others are still asked."""
    started, base = time.monotonic(), time.time() if now is None else now
    return lambda: base + (time.monotonic() - started)


def _ask(clock: Callable[[], float]) -> dict[str, Loads]:
    known = engines_of_open_drains()
    if not known:
        return {}
    # A key that cannot be opened any more is left away: the engine says that it wants one.
    engines = {name: Engine(url, secrets.unseal(sealed) or "") for name, (url, sealed) in known.items()}
    return asyncio.run(ask_all(engines, clock=clock, allowed=policy(own_ports())))


def _is_overtaken(case: Case, asked_at: float) -> bool:
    """A look that asked later is kept already: what was true before it comes too late to be the next reading."""
    before = msgspec.json.decode(case.row.seen).get("asked_at", 0.0)
    # By so much a look cannot be late: the clock was set back.
    return bool(0 < before - asked_at < LATEST_SECONDS)


def _keep(case: Case, verdict: Verdict, loads: Loads, asked_at: float, now: float) -> bool:
    row, told = case.row, _is_news(case, verdict)
    if not told and _remembers_the_same(case, verdict) and now - (row.checked_at or 0.0) < REFRESH_SECONDS:
        return False

    def work() -> tuple[bool, list[NewEvent]]:
        own = Drain.objects.using(FACTS).filter(pk=row.pk, ended_at=None, progress=row.progress, seen=row.seen)
        kept = own.filter(cordon_revision=row.cordon_revision).update(
            **_columns(case, verdict, now, told), seen=_seen(case, verdict, loads, asked_at, now, told)
        )
        if not kept or not told:
            # Somebody else looked, or ended it, a moment ago.
            return False, []
        return True, [_progressed(case, verdict)]

    def ask_again(_: bool, revision: int) -> None:
        chosen = case.seen.selectors
        Drain.objects.using(FACTS).filter(pk=row.pk).update(cordon_revision=revision, cordon_ledger=chosen.ledger_id)

    return record_and_note(work, ask_again) if verdict.ask_again else record(work)


def _is_news(case: Case, verdict: Verdict) -> bool:
    """What the ledger is told: progress, the launch in question, and the set of blockers; not counts that tick."""
    return (
        verdict.ask_again
        or str(verdict.state.progress) != case.row.progress
        or verdict.state.launch != case.row.launch
        or (verdict.state.memory.blocked_by != case.state.memory.blocked_by)
    )


def _remembers_the_same(case: Case, verdict: Verdict) -> bool:
    before, after = case.state.memory, verdict.state.memory
    counts = [{key: zero.count for key, zero in memory.zeros.items()} for memory in (before, after)]
    return counts[0] == counts[1] and (before.stopped_at, before.ranks) == (after.stopped_at, after.ranks)


def _columns(case: Case, verdict: Verdict, now: float, told: bool) -> dict[str, Any]:
    progress = verdict.state.progress
    columns: dict[str, Any] = {
        "progress": str(progress),
        "launch": verdict.state.launch,
        "checked_at": now,
    }
    if told:
        columns["blockers"] = msgspec.json.encode(list(verdict.blockers.values())).decode()
    if progress in (Progress.EMPTY, Progress.DRAINED):
        columns["empty_at"] = case.row.empty_at if case.row.empty_at is not None else now
    elif progress == Progress.WAITING:
        columns["empty_at"] = None
    return columns


def _seen(case: Case, verdict: Verdict, loads: Loads, asked_at: float, now: float, told: bool) -> str:
    readings = [_reading(reading) for reading in case.seen.readings[:KEPT_READINGS]]
    before = msgspec.json.decode(case.row.seen)
    said = {
        "asked_at": asked_at,
        "journal": case.journal.data(),
        "readings": readings,
        "engine_problem": loads.problem,
        "waiting_for": list(verdict.admission.waiting_for),
        # What each sentence in `blockers` is about, in the order in which those were kept.
        "keys": list(verdict.blockers) if told else before.get("keys", []),
        "trail": extend(Trail.read(before.get("trail", {})), now, open_in_all(verdict.said)).data(),
    }
    return msgspec.json.encode({**verdict.state.memory.data(), **said}).decode()


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "kind": reading.kind,
        "source": reading.source,
        "dp": reading.dp,
        "taken_at": reading.taken_at,
        "open": reading.open,
        "counts": dict(reading.counts),
    }


def _progressed(case: Case, verdict: Verdict) -> NewEvent:
    row = case.row
    data = {
        "drain": row.pk,
        "dp": None if row.group == ALL_GROUPS else row.group,
        "before": row.progress,
        "after": str(verdict.state.progress),
        "launch": verdict.state.launch,
        "blockers": list(verdict.blockers.values()),
    }
    return NewEvent("drain.progressed", row.instance, data)
