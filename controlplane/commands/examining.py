"""Ask engines how they are, and keep what that comes to: the one writer of engine health.

What a probe changes is decided by `domain.engine_health`; a turn of a verdict is an event of the ledger, in the transaction
that stores it. A row is written only as it was read (`version`): of two workers that look at once one is too late, and tells
nothing. What only gets older is stored every few seconds.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import structlog
from django.conf import settings
from django.db import DatabaseError

from controlplane.access import secrets
from controlplane.domain.contact import Contact
from controlplane.domain.engine_health import Answer, fails, hear, withhold
from controlplane.domain.launch import Address
from controlplane.domain.verdicts import Jury
from controlplane.probes.engines import Finding, Patient, stream
from controlplane.probes.outgoing import policy
from controlplane.probes.urls import parse
from controlplane.queries import engine_health as queries
from controlplane.queries.engine_health import Asked
from controlplane.queries.witnesses import own_ports

from . import suspecting
from .keeping_health import Change, forget, keep
from .known_engines import Known, is_news

log = structlog.get_logger(__name__)

PER_SECOND = 200
"""So many engines are asked in a second; where there are more, each of them is asked less often."""

LONGEST_STRETCH = 8.0
MOST_A_ROUND = 1600
KEEP_SECONDS = 10.0
IDENTITY_LASTS = 10.0
LOAD_LASTS = 10.0
SPREAD_SECONDS = 0.5
HANGING_AT_ONCE = 64
"""Of those whose probes take all of their time: they are asked by one round at a time, so that no round but it waits."""

HURRIED_AT_ONCE = 2
"""Rounds for suspects alone; a suspicion beyond them waits for the next round, a second at most."""

BREAK_SECONDS = 2 * LONGEST_STRETCH
"""Not asked for so many of its periods of a second or more: then it was us who were away."""


@dataclass(slots=True)
class Examined:
    """What a round came to."""

    asked: int = 0
    turned: int = 0
    paused: bool = False


class Examiner:
    """One a process. Rounds may run beside each other: each engine is asked by one of them at a time."""

    def __init__(self, *, again: bool = True) -> None:
        """`again`: whoever answers otherwise than expected is asked once more at once."""
        self._again = again
        self._lock = threading.Lock()
        self._known: dict[int, Known] = {}
        self._asking: set[int] = set()
        self._hurried = threading.Semaphore(HURRIED_AT_ONCE)
        self._jury = Jury()
        self._suspects = suspecting.Newest()
        self.paused = False

    def round(self, *, suspects_only: bool = False) -> Examined:
        """Ask whoever is due, or has been suspected since; those that are being asked are left to whoever does."""
        done = Examined()
        if suspects_only and not self._hurried.acquire(blocking=False):
            return done
        try:
            self._round(done, suspects_only=suspects_only)
        finally:
            if suspects_only:
                self._hurried.release()
        done.paused = self.paused
        return done

    def _round(self, done: Examined, *, suspects_only: bool) -> None:
        found, left = queries.asked()
        suspected = self._suspects.take()
        chosen = self._choose(found, suspected, suspects_only=suspects_only)
        asking = {known.asked.id for known in chosen}
        try:
            if not suspects_only:
                done.turned += forget(left)
            self._examine(chosen, asking, done, spread=0.0 if suspects_only else SPREAD_SECONDS)
        finally:
            self._let_go(asking, set(asking))

    def _choose(self, found: Sequence[Asked], suspected: set[int], *, suspects_only: bool) -> list[Known]:
        now, stretch = time.monotonic(), min(LONGEST_STRETCH, max(1.0, len(found) / PER_SECOND))
        with self._lock:
            for gone in self._known.keys() - {asked.id for asked in found} - self._asking:
                del self._known[gone]
            self._jury.forget({_address(asked.url) for asked in found})
            waited_for = any(self._known[id_].hangs for id_ in self._asking)
            due, hanging = [], 0
            for asked in found:
                if asked.id in self._asking:
                    if asked.id in suspected:
                        self._known[asked.id].due = 0.0
                    continue
                known = self._refreshed(asked, now)
                if asked.id in suspected:
                    # Whoever doubts it looks for what comes of that, even if nothing changed.
                    known.stored_at = 0.0
                if asked.id in suspected or (not suspects_only and now >= known.due):
                    due.append(known)
            due.sort(key=lambda known: (known.asked.id not in suspected, known.due))
            chosen: list[Known] = []
            for known in due:
                if len(chosen) >= MOST_A_ROUND:
                    break
                if known.hangs:
                    if waited_for or hanging >= HANGING_AT_ONCE:
                        known.due = min(known.due, now)
                        continue
                    hanging += 1
                chosen.append(known)
                self._asking.add(known.asked.id)
                known.due = now + known.asked.every * stretch * random.uniform(0.9, 1.1)
        return chosen

    def _let_go(self, asking: set[int], done: set[int]) -> None:
        """Others may ask them now."""
        with self._lock:
            self._asking -= done & asking
        asking -= done

    def _refreshed(self, asked: Asked, now: float) -> Known:
        """As it is stored, unless we know better."""
        known = self._known.get(asked.id)
        if known is None or known.version < asked.version or known.memory.at != asked.url:
            stored = (asked, asked.memory, asked.stored, asked.version, now)
            known = self._known[asked.id] = Known(*stored) if known is None else known.anew(*stored)
        known.asked = asked
        return known

    def _examine(self, chosen: Sequence[Known], asking: set[int], done: Examined, *, spread: float) -> None:
        by_id = {known.asked.id: known for known in chosen}
        patients = [_patient(known, again=self._again) for known in chosen]
        if not patients:
            return
        allowed, timeout = policy(own_ports()), settings.PDCP_HEALTH_TIMEOUT_SECONDS
        for findings in stream(patients, allowed=allowed, timeout=timeout, spread=spread):
            done.asked += len(findings)
            self._hear(by_id, findings)
            touched = [by_id[id_] for id_ in dict.fromkeys(finding.id for finding in findings)]
            done.turned += self._keep(touched)
            # Whoever hangs holds up nobody else: the others are asked by the next rounds while it is waited for.
            self._let_go(asking, {finding.id for finding in findings if finding.done})

    def _hear(self, by_id: dict[int, Known], findings: Iterable[Finding]) -> None:
        """All of them are heard before any is judged: most of them may fail together."""
        with self._lock:
            for finding in findings:
                if finding.heard.answer is Answer.UNASKED:
                    continue
                contact = Contact.REFUSED if fails(finding.heard.answer) else Contact.UP
                self._jury.hear(finding.id, _address(by_id[finding.id].asked.url), contact, time.monotonic())
            paused = self._jury.paused()
        if paused != self.paused:
            self.paused = paused
            log.warning("engine_verdicts_paused" if paused else "engine_verdicts_resumed")
        for finding in findings:
            known = by_id[finding.id]
            longest = BREAK_SECONDS * max(1.0, known.asked.every)
            if known.memory.asked_at is not None and finding.at - known.memory.asked_at > longest:
                known.asked_since = finding.at
            known.asked_since = min(known.asked_since, finding.at)
            heard = replace(finding.heard, asked_since=known.asked_since)
            known.hangs = heard.answer in (Answer.TIMEOUT, Answer.UNREACHED) and not heard.spared
            known.count(heard)
            if paused and fails(heard.answer):
                known.memory = withhold(known.memory, heard, finding.at)
            else:
                known.memory = hear(known.memory, heard, known.asked.rule, finding.at)

    def _keep(self, touched: Sequence[Known]) -> int:
        """Store what is news, and what was stored a while ago; how many verdicts turned."""
        now = time.monotonic()
        changed = [known for known in touched if is_news(known) or now - known.stored_at >= KEEP_SECONDS]
        if not changed:
            return 0
        changes = [
            Change(known.asked.id, known.asked.name, known.stored, known.memory, known.version) for known in changed
        ]
        try:
            kept = keep(changes)
        except DatabaseError as problem:
            # We remember, and the next round tries again.
            log.warning("engine_health_not_kept", problem=str(problem)[:300])
            return 0
        turned = 0
        for known, change in zip(changed, changes, strict=True):
            if change.id in kept:
                turned += known.stored.verdict != change.after.verdict
                known.stored, known.version, known.stored_at = change.after, known.version + 1, now
            else:
                # Another worker was faster: what it stored is read in the next round.
                known.version = -1
        return turned


def _patient(known: Known, *, again: bool) -> Patient:
    now, memory, asked = time.time(), known.memory, known.asked
    return Patient(
        asked.id,
        asked.role,
        asked.url,
        memory,
        secrets.unseal(asked.sealed_key) or "" if asked.sealed_key else "",
        identify=now - (memory.identified_at or 0.0) >= IDENTITY_LASTS or memory.fails > 0,
        weigh=now - (memory.load_at or 0.0) >= LOAD_LASTS,
        again=again,
        spare=known.spare,
    )


@lru_cache(maxsize=16_384)
def _address(url: str) -> Address:
    # Whether it may be asked is decided when it is: one that may not any more must not keep the others from being asked.
    target = parse(url, any_port=True)
    return target.host, target.port
