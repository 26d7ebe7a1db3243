"""Asks engines' own HTTP servers how they are: /health, who answers there, and whether their scheduler runs.

`stream` asks many at once and hands over what was heard as it comes: who hangs holds up nobody else.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controlplane.domain.engine_health import Answer, Heard, Memory, Why, contradicts
from controlplane.domain.errors import Refused
from controlplane.protocol import observed

from .bootstrap_port import holder
from .loads import Load, read_loads
from .networks import ProbePolicy
from .outgoing import DISTRUSTED, REFUSED, UNRESOLVED, Fetched, Unreachable, fetch
from .workers import INFO_LIMIT_BYTES, INFO_PATHS

AGAIN_SECONDS = 0.3
"""After this long a miss, or any answer that was not expected, is asked for once more."""

AT_ONCE = 128
INFO_SECONDS = 2.0
FRESH_SECONDS = 5.0
"""A scheduler that runs renews what it says of its load; one that hangs does not."""

STILL_SECONDS = 20.0
"""A DP rank that has not renewed its load for so long, while others have, stands still: no batch takes so long."""

GATHER_SECONDS = 0.1
"""Answers of so long are handed over together."""

SMALL_BYTES = 64 * 1024
OTHERS: Mapping[str | None, str] = {"prefill": "a prefill", "decode": "a decode", "null": "not disaggregated"}


@dataclass(frozen=True, slots=True)
class Patient:
    """One engine to be asked: where, with which key, and what is known of it. `identify`, `weigh`: ask who it is, and what it
    holds, if it is well. `spare`: it has not answered a /health of ours, which is a request that it has to compute: it gets
    no other one while its load says that its scheduler stands still."""

    id: int
    role: str
    url: str
    memory: Memory
    key: str = field(default="", repr=False)
    identify: bool = False
    weigh: bool = False
    again: bool = True
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What was heard of one engine, one probe after the other, and when. `done`: it is not asked again in this round."""

    id: int
    heard: Heard
    at: float
    done: bool


def stream(
    patients: Sequence[Patient], *, allowed: ProbePolicy, timeout: float, spread: float = 0.0
) -> Iterator[list[Finding]]:
    """Every patient once, and once more who answers otherwise than expected. `timeout` (seconds) is that of /health; they
    begin at moments drawn from `spread` seconds. The caller's thread takes what a thread of its own asks."""
    found: queue.SimpleQueue[Finding | None] = queue.SimpleQueue()
    round_ = _Round(allowed, timeout, spread, found)
    asking = threading.Thread(target=round_.run, args=(patients,), name="engines", daemon=True)
    asking.start()
    open_ = True
    while open_:
        batch = [found.get()]
        until = time.monotonic() + GATHER_SECONDS
        while batch[-1] is not None and (left := until - time.monotonic()) > 0:
            try:
                batch.append(found.get(timeout=left))
            except queue.Empty:
                break
        open_ = batch[-1] is not None
        findings = [finding for finding in batch if finding is not None]
        if findings:
            yield findings
    asking.join()


class _Round:
    def __init__(
        self, allowed: ProbePolicy, timeout: float, spread: float, found: queue.SimpleQueue[Finding | None]
    ) -> None:
        self._allowed, self._timeout, self._spread, self._found = allowed, timeout, spread, found

    def run(self, patients: Sequence[Patient]) -> None:
        try:
            asyncio.run(self._ask_all(patients))
        finally:
            self._found.put(None)

    async def _ask_all(self, patients: Sequence[Patient]) -> None:
        places = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._ask(patient, places) for patient in patients))

    async def _ask(self, patient: Patient, places: asyncio.Semaphore) -> None:
        await asyncio.sleep(random.uniform(0.0, self._spread))
        heard = await self._examine(patient, places)
        again = patient.again and contradicts(patient.memory, heard.answer)
        self._found.put(Finding(patient.id, heard, time.time(), not again))
        if again:
            await asyncio.sleep(AGAIN_SECONDS)
            spare = patient.spare or heard.answer is Answer.TIMEOUT
            heard = await self._examine(replace(patient, identify=True, spare=spare), places)
            self._found.put(Finding(patient.id, heard, time.time(), True))

    async def _examine(self, patient: Patient, places: asyncio.Semaphore) -> Heard:
        async with places:
            try:
                return await examine(patient, allowed=self._allowed, timeout=self._timeout)
            except Exception as problem:
                # One that cannot be asked for a reason of ours must not keep the others from being heard.
                return Heard(Answer.UNASKED, error=f"it could not be asked ({type(problem).__name__})")


async def examine(patient: Patient, *, allowed: ProbePolicy, timeout: float) -> Heard:
    """One probe of one engine. Raises nothing that is about the engine."""
    if patient.spare and (heard := await _at_a_standstill(patient, allowed)) is not None:
        return heard
    headers = {"authorization": f"Bearer {patient.key}"} if patient.key else {}
    began = time.monotonic()
    try:
        answer = await fetch(
            "GET",
            f"{patient.url}/health",
            headers=headers,
            timeout=timeout,
            limit_bytes=SMALL_BYTES,
            allowed=allowed,
        )
    except Refused as refused:
        heard = _unheard(refused, timeout)
    else:
        heard = replace(_answered(answer), took=time.monotonic() - began)
    if heard.answer is Answer.WELL and (patient.identify or not patient.memory.identified_at):
        heard = await _identified(heard, patient, headers, allowed)
    if heard.answer in (Answer.UNWELL, Answer.TIMEOUT) or (heard.answer is Answer.WELL and patient.weigh):
        heard = await _weighed(heard, patient, allowed)
    return heard


async def _at_a_standstill(patient: Patient, allowed: ProbePolicy) -> Heard | None:
    """What is heard where there is no use in asking for its /health: it would only wait behind the one before. None: it runs,
    or its load does not tell."""
    now = time.time()
    try:
        told = await read_loads(patient.url, patient.key, now=now, timeout=INFO_SECONDS, allowed=allowed)
    except Refused:
        return None
    if not told.loads or any(now - load.taken_at < FRESH_SECONDS for load in told.loads):
        return None
    said = "it accepted the connection: its scheduler stands still, and has not answered the last /health"
    return Heard(Answer.TIMEOUT, error=said, computes=False, spared=True)


def _answered(answer: Fetched) -> Heard:
    status = answer.status
    if status == 200:
        return Heard(Answer.WELL, status)
    if status in (401, 403):
        return Heard(Answer.UNASKED, status, error="it does not accept the API key that is kept for it")
    if status >= 500 or status == 429:
        return Heard(Answer.UNWELL, status, error=f"its /health answers {status}")
    return Heard(Answer.STRANGER, status, error=f"it answers {status} for /health, as no engine does", why=Why.STRANGE)


def _unheard(refused: Refused, timeout: float) -> Heard:
    if not isinstance(refused, Unreachable):
        # Not allowed, or we asked too much: neither is about the engine.
        return Heard(Answer.UNASKED, error=refused.sentence)
    if refused.why == DISTRUSTED:
        return Heard(Answer.UNASKED, error="it shows a certificate that is not trusted here: see SSL_CERT_FILE")
    if refused.connected:
        how = f"no answer within {timeout:g} s" if refused.why == "timeout" else "it hung up without an answer"
        return Heard(Answer.TIMEOUT, error=f"it accepted the connection: {how}")
    if refused.why == REFUSED:
        return Heard(Answer.REFUSED, error="it refused the connection")
    if refused.why == UNRESOLVED:
        # It was not asked: that a name server of ours does not answer is not its fault.
        return Heard(Answer.UNASKED, error="its name could not be looked up from here")
    return Heard(Answer.UNREACHED, error="no connection came about")


async def _identified(heard: Heard, patient: Patient, headers: Mapping[str, str], allowed: ProbePolicy) -> Heard:
    """Who answers there. Many a program answers 200 to /health."""
    try:
        for path in INFO_PATHS:
            told = await fetch(
                "GET",
                patient.url + path,
                headers=headers,
                timeout=INFO_SECONDS,
                limit_bytes=INFO_LIMIT_BYTES,
                allowed=allowed,
            )
            if told.status != 404:
                break
    except Refused:
        # Its scheduler is asked for this, and may be busy: another time.
        return heard
    if told.status == 404:
        return _strange(heard, "it does not say what it is, as engines do")
    if told.status != 200:
        return heard
    try:
        identity, said = observed.read_server_info(told.body)
    except Refused:
        return _strange(heard, "it does not say what it is, as engines do")
    known = replace(heard, identity=identity, said=said)
    port = observed.read_bootstrap_port(told.body) if patient.role == "prefill" else None
    if port is not None:
        where, who = await holder(patient.url, port, allowed=allowed)
        known = replace(known, held=where, holder=who)
    mode = said.get("mode")
    if patient.role in ("prefill", "decode") and mode is not None and mode != patient.role:
        error = f"it says that it is {OTHERS[mode]}, and a {patient.role} is meant"
        return replace(known, answer=Answer.STRANGER, error=error, why=Why.ROLE)
    return known


def _strange(heard: Heard, error: str) -> Heard:
    return replace(heard, answer=Answer.STRANGER, error=error, why=Why.STRANGE)


async def _weighed(heard: Heard, patient: Patient, allowed: ProbePolicy) -> Heard:
    """What it holds, and whether its scheduler runs."""
    asked_at = time.time()
    try:
        told = await read_loads(patient.url, patient.key, now=asked_at, timeout=INFO_SECONDS, allowed=allowed)
    except Refused:
        return replace(heard, computes=None if heard.answer is Answer.WELL else False)
    runs = any(asked_at - load.taken_at < FRESH_SECONDS for load in told.loads)
    # What it held before its scheduler stopped is not what it holds.
    return replace(heard, computes=runs, load=_summed(told.loads, asked_at) if runs else None)


def _summed(loads: Sequence[Load], asked_at: float) -> dict[str, int]:
    """All DP ranks together; a count that one of them does not tell is not told. Beside them, of several: how many stand
    still while others go on, and the first of these. /health is 200 as long as any of them answers."""
    told: list[Mapping[str, Any]] = [load.counts for load in loads]
    names = [name for name in told[0] if all(name in counts for counts in told)]
    still = sorted(load.dp for load in loads if asked_at - load.taken_at > STILL_SECONDS)
    sums = {name: sum(counts[name] for counts in told) for name in names}
    return {**sums, "still": len(still), "still_dp": still[0]} if still else sums
