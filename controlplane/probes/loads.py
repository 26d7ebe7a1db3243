"""An engine's own load, per DP rank, from SGLang's `/v1/loads`: what it holds, and when that was true by our clock."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import msgspec

from controlplane.domain.errors import Refused

from .networks import ProbePolicy
from .outgoing import Unreachable, fetch

PATH = "/v1/loads?include=disagg,queues"
MAX_DP = 4096
MAX_COUNT = 2**53
AT_ONCE = 256
"""Each may take as long as TIMEOUT_SECONDS, and a round ends with the last: by then the first answer must not be old."""

TIMEOUT_SECONDS = 2.0

# Where each count stands in a load. A section that the engine does not know is absent, which is not zero.
# While one chunk of a prompt is computed, its request is in no queue; its tokens are still among the last of these.
FIELDS: Mapping[str, tuple[str, str]] = {
    "running": ("", "num_running_reqs"),
    "waiting": ("", "num_waiting_reqs"),
    "bootstrap": ("disaggregation", "prefill_bootstrap_queue_reqs"),
    "inflight": ("disaggregation", "prefill_inflight_queue_reqs"),
    "prealloc": ("disaggregation", "decode_prealloc_queue_reqs"),
    "transfer": ("disaggregation", "decode_transfer_queue_reqs"),
    "retracted": ("disaggregation", "decode_retracted_queue_reqs"),
    "grammar": ("queues", "grammar"),
    "uncomputed_tokens": ("", "num_waiting_uncached_tokens"),
}


@dataclass(frozen=True, slots=True)
class Engine:
    """Where an engine serves HTTP, and the API key it wants ("" for none)."""

    url: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Load:
    """One DP rank. `taken_at` is by our clock; `mark` tells this snapshot from the next; unknown counts are absent."""

    dp: int
    taken_at: float
    mark: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Loads:
    """What one engine answered, or why there is no answer."""

    loads: tuple[Load, ...] = ()
    problem: str = ""


async def read_loads(
    url: str, key: str, *, now: float, timeout: float = TIMEOUT_SECONDS, allowed: ProbePolicy | None = None
) -> Loads:
    """`now` is our clock at the moment of asking. Raises Refused (unreachable, forbidden, …); repeats nothing it read."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = await fetch("GET", f"{url}{PATH}", headers=headers, timeout=timeout, allowed=allowed)
    if answer.status in (401, 403):
        raise Unreachable("the engine does not accept the API key that is kept for it", why=str(answer.status))
    if answer.status != 200:
        raise Unreachable("the engine does not tell its load at /v1/loads", why=str(answer.status))
    return Loads(parse(answer.body, now=now))


async def ask_all(
    engines: Mapping[str, Engine],
    *,
    clock: Callable[[], float],
    timeout: float = TIMEOUT_SECONDS,
    at_once: int = AT_ONCE,
    allowed: ProbePolicy | None = None,
) -> dict[str, Loads]:
    """Every engine once, `at_once` at a time; whoever does not answer holds up nobody else for longer than `timeout`."""
    places = asyncio.Semaphore(at_once)

    async def ask(engine: Engine) -> Loads:
        async with places:
            try:
                return await read_loads(engine.url, engine.key, now=clock(), timeout=timeout, allowed=allowed)
            except Refused as refused:
                return Loads(problem=refused.sentence)

    answers = await asyncio.gather(*(ask(engine) for engine in engines.values()))
    return dict(zip(engines, answers, strict=True))


def parse(body: bytes, *, now: float) -> tuple[Load, ...]:
    """The loads in an answer. A rank that is named twice, or says nothing usable about itself, is left out: unknown."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise Unreachable("the engine's answer at /v1/loads is not JSON", why="not json") from None
    if not isinstance(document, dict) or not isinstance(document.get("loads"), list):
        raise Unreachable("the engine's answer at /v1/loads holds no loads", why="no loads")
    answered_at = _moment(document.get("timestamp"))
    found: dict[int, Load] = {}
    twice: set[int] = set()
    for given in document["loads"][:MAX_DP]:
        load = _load(given, answered_at, now)
        if load is None:
            continue
        if load.dp in found:
            twice.add(load.dp)
        found[load.dp] = load
    return tuple(load for dp, load in sorted(found.items()) if dp not in twice)


def _load(given: Any, answered_at: float | None, now: float) -> Load | None:
    if not isinstance(given, dict):
        return None
    dp, own = given.get("dp_rank"), _moment(given.get("timestamp"))
    if not _is_count(dp) or dp >= MAX_DP or own is None or answered_at is None:
        return None
    counts = {}
    for name, (section, key) in FIELDS.items():
        part = given.get(section) if section else given
        value = part.get(key) if isinstance(part, dict) else None
        if _is_count(value):
            counts[name] = value
    # Both moments are by the engine's clock, whatever that shows: only their distance means something to us. It is
    # counted from when we asked, so that a slow answer makes a reading older, never younger.
    return Load(dp, now - max(0.0, answered_at - own), repr(own), counts)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _moment(value: Any) -> float | None:
    """Seconds since the epoch: a number, as loads have it, or RFC 3339, as the answer has it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if 0 <= value < 1e11 else None
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
