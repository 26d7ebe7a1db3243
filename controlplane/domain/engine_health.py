"""How an engine's own HTTP server is, from one probe after another: what each answer does to what is known. Pure.

A verdict turns only after several answers alike (`Rule`), in both directions. What proves nothing turns nothing: an engine
that computes long prompts answers late, and one that nobody ever reached from here is not known, not dead.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .engine_queues import held_up
from .moments import set_right

LATE_FROM = 2
"""Misses in a row from which it is called late: one alone is asked again, and forgotten if that is answered."""


class State(enum.StrEnum):
    """The verdict on an engine."""

    UNKNOWN = "unknown"
    """Nobody asks it, or it never answered from here."""
    STARTING = "starting"
    """It answers that it does not serve yet."""
    UP = "up"
    """Its /health answers 200."""
    LATE = "late"
    """It missed probes, or computes and says nothing meanwhile."""
    SILENT = "silent"
    """It answers nothing any more, again and again: frozen, or cut off."""
    DOWN = "down"
    """It refuses connections, says itself that it is not well, or nothing was heard of it for long."""
    STRANGER = "stranger"
    """Whoever answers there is not the engine that is meant."""


BLOCKING = frozenset({State.STARTING, State.DOWN, State.STRANGER})
"""What keeps an engine from being sent work. The others are doubt at most."""


class Answer(enum.StrEnum):
    """What one probe came to."""

    WELL = "well"
    UNWELL = "unwell"
    """Another status than 200 for /health."""
    REFUSED = "refused"
    TIMEOUT = "timeout"
    """The connection was accepted, and no answer came."""
    UNREACHED = "unreached"
    """Not even a connection."""
    STRANGER = "stranger"
    UNASKED = "unasked"
    """Not allowed, not possible, or the key does not fit: it says nothing about the engine."""


class Why(enum.StrEnum):
    """What a verdict rests on."""

    REFUSED = "refused"
    FAILING = "failing"
    LOST = "lost"
    TIMEOUT = "timeout"
    UNREACHED = "unreached"
    MISSED = "missed"
    BUSY = "busy"
    ROLE = "role"
    STRANGE = "strange"


@dataclass(frozen=True, slots=True)
class Heard:
    """One probe. `took` in seconds; `said` and `identity` where it was asked who it is (None: not asked, or no answer).

    `computes`: its own load is fresh, so its scheduler runs, whatever /health says; None where that was not asked.
    `holder`: who holds the bootstrap port of a prefill, at the address `held` (probes.bootstrap_port); empty: not asked.
    `error` ends a sentence that begins with the address. `asked_since`: from then on it was asked again and again; what was
    not heard before, because we were away ourselves, is not held against it. `spared`: its /health was not asked for.
    """

    answer: Answer
    status: int | None = None
    took: float | None = None
    error: str = ""
    why: Why | None = None
    computes: bool | None = None
    identity: str | None = None
    said: Mapping[str, Any] | None = None
    load: Mapping[str, int] | None = None
    held: str = ""
    holder: str = ""
    asked_since: float = 0.0
    spared: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """`fails` in a row make it unhealthy, `passes` in a row healthy again. `lost_after`: seconds without any sign."""

    fails: int = 3
    passes: int = 2
    lost_after: float = 30.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of one engine. Times are epoch seconds; `fails` and `passes` count no further than the rule asks.

    `proof_at`: it served, or computed; `answered_at`: somebody answered there at all; `served`: this start of it has been
    well once. `withheld_since`: it fails, and that is not held against it, since most fail together.
    """

    at: str = ""
    state: State = State.UNKNOWN
    why: Why | None = None
    since: float = 0.0
    asked_at: float | None = None
    answered_at: float | None = None
    proof_at: float | None = None
    status: int | None = None
    took: float | None = None
    error: str = ""
    error_at: float | None = None
    computed_at: float | None = None
    fails: int = 0
    passes: int = 0
    served: bool = False
    identity: str = ""
    said: Mapping[str, Any] = field(default_factory=dict)
    identified_at: float | None = None
    load: Mapping[str, int] = field(default_factory=dict)
    load_at: float | None = None
    withheld_since: float | None = None
    held: str = ""
    holder: str = ""
    held_at: float | None = None

    @property
    def verdict(self) -> tuple[State, Why | None]:
        return self.state, self.why


MOMENTS = (
    *("since", "asked_at", "answered_at", "proof_at", "error_at", "computed_at"),
    *("identified_at", "load_at", "withheld_since", "held_at"),
)


def hear(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    """What is known after one probe.

    >>> known = Memory("http://a")
    >>> for answer in (Answer.WELL, Answer.REFUSED, Answer.REFUSED, Answer.REFUSED):
    ...     known = hear(known, Heard(answer), Rule(), 1.0)
    ...     print(known.state, end=" ")
    up up late down\x20
    """
    noted = replace(_noted(set_right(memory, MOMENTS, now), heard, now), withheld_since=None)
    return HEARD[heard.answer](noted, heard, rule, now)


def withhold(memory: Memory, heard: Heard, now: float) -> Memory:
    """What is known when the fault is probably ours: what was seen is shown, and turns nothing."""
    memory = set_right(memory, MOMENTS, now)
    since = memory.withheld_since if memory.withheld_since is not None else now
    return replace(_noted(memory, heard, now), withheld_since=since)


def contradicts(memory: Memory, answer: Answer) -> bool:
    """Whether it is asked again at once: the answer is not what the verdict let expect."""
    if answer is Answer.UNASKED:
        return False
    return (answer is Answer.WELL) is not (memory.state is State.UP)


def fails(answer: Answer) -> bool:
    """Whether nobody answered who could: what happens to most engines at once when the fault is ours."""
    return answer in (Answer.REFUSED, Answer.TIMEOUT, Answer.UNREACHED)


def _noted(memory: Memory, heard: Heard, now: float) -> Memory:
    if heard.answer is Answer.UNASKED:
        return replace(memory, error=heard.error, error_at=now)
    noted = replace(memory, asked_at=now, status=heard.status, took=heard.took)
    if heard.status is not None:
        noted = replace(noted, answered_at=now)
    if heard.computes:
        noted = replace(noted, answered_at=now, computed_at=now)
    if heard.error:
        noted = replace(noted, error=heard.error, error_at=now)
    if heard.load is not None:
        noted = replace(noted, load=held_up(memory.load, heard.load, before_at=memory.load_at, now=now), load_at=now)
    if heard.holder:
        noted = replace(noted, held=heard.held, holder=heard.holder, held_at=now)
    if heard.said is not None:
        another = heard.identity != memory.identity and memory.identity != ""
        noted = replace(noted, identity=heard.identity or "", said=heard.said, identified_at=now)
        # Whatever the engine before it did, this one has not served yet.
        noted = replace(noted, served=False) if another else noted
    return noted


def _well(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    return replace(_passed(memory, State.UP, None, rule, now), proof_at=now)


def _passed(memory: Memory, to: State, why: Why | None, rule: Rule, now: float) -> Memory:
    passed = replace(memory, fails=0, passes=min(memory.passes + 1, rule.passes))
    judged = memory.state in (State.SILENT, State.DOWN, State.STRANGER)
    if judged and passed.passes < rule.passes:
        return passed
    return replace(_turned(passed, to, why, now), served=True, passes=rule.passes)


def _busy(memory: Memory, rule: Rule, now: float) -> Memory:
    """It does not say that it is well, and computes. One such answer alone is forgotten like one miss."""
    proven = replace(memory, proof_at=now)
    if memory.state is State.UP and not memory.fails:
        return replace(proven, fails=1, passes=0)
    return replace(_passed(proven, State.LATE, Why.BUSY, rule, now), fails=1)


def _unwell(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    if not memory.served:
        # It never was well, as far as anybody saw: engines answer 503 until they serve.
        return replace(_turned(memory, State.STARTING, None, now), fails=0, passes=0)
    if heard.computes:
        return _busy(memory, rule, now)
    return _failed(memory, State.DOWN, Why.FAILING, rule, now)


def _refused(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    failed = _failed(memory, State.DOWN, Why.REFUSED, rule, now)
    # Its process is gone: who answers next has to start first.
    return replace(failed, served=False) if failed.verdict == (State.DOWN, Why.REFUSED) else failed


def _quiet(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    if heard.computes and memory.served:
        return _busy(memory, rule, now)
    if memory.answered_at is None:
        # Never reached from here: a network of its own, perhaps. Nobody knows.
        return replace(memory, fails=min(memory.fails + 1, rule.fails), passes=0)
    why = Why.UNREACHED if heard.answer is Answer.UNREACHED else Why.TIMEOUT
    if now - max(memory.answered_at, heard.asked_since) >= rule.lost_after:
        # What was proven about it stays proven.
        stays = memory.state is State.DOWN
        return _failed(memory, State.DOWN, memory.why if stays else Why.LOST, rule, now)
    if memory.state in (*BLOCKING, State.SILENT):
        return _failed(memory, memory.state, memory.why, rule, now)
    return _failed(memory, State.SILENT, why, rule, now)


def _strange(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    return _failed(memory, State.STRANGER, heard.why or Why.STRANGE, rule, now)


def _failed(memory: Memory, to: State, why: Why | None, rule: Rule, now: float) -> Memory:
    """One miss more; enough of them in a row are the verdict."""
    failed = replace(memory, fails=min(memory.fails + 1, rule.fails), passes=0)
    if failed.fails >= rule.fails:
        return _turned(failed, to, why, now)
    if failed.state is State.UP and failed.fails >= min(LATE_FROM, rule.fails):
        return _turned(failed, State.LATE, Why.MISSED, now)
    return failed


def _unasked(memory: Memory, heard: Heard, rule: Rule, now: float) -> Memory:
    return memory


def _turned(memory: Memory, state: State, why: Why | None, now: float) -> Memory:
    since = memory.since if state is memory.state else now
    return replace(memory, state=state, why=why, since=since)


HEARD: Mapping[Answer, Callable[[Memory, Heard, Rule, float], Memory]] = {
    Answer.WELL: _well,
    Answer.UNWELL: _unwell,
    Answer.REFUSED: _refused,
    Answer.TIMEOUT: _quiet,
    Answer.UNREACHED: _quiet,
    Answer.STRANGER: _strange,
    Answer.UNASKED: _unasked,
}


def where(role: str, engine_url: str, observed_url: str) -> str:
    """Where an instance's engine is asked how it is; "" for nowhere. What is observed of a decode is its HTTP server.

    >>> where("decode", "", "http://d"), where("prefill", "", "http://p:8998")
    ('http://d', '')
    """
    return engine_url or (observed_url if role == "decode" else "")
