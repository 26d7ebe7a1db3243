"""Alarms: when something that needs a person is worth telling, when that is over, and how flapping is damped.

What needs a person (`attention`) is looked at every few seconds. Something that lasts is raised, and stays one alarm
until it was gone for a while; each time that it comes back within that while, the next one is twice as long. All that
must be remembered is in `Alarm`, so that any round can be the last of its process.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from .attention import Concern, Harm, Place
from .moments import set_right

LONGEST_KEY = 400
LONGEST_NAME = 400


class Severity(enum.StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


SEVERITIES: Mapping[Harm, Severity] = {
    Harm.NOTHING_SERVED: Severity.CRITICAL,
    Harm.DOWN: Severity.CRITICAL,
    Harm.PART: Severity.WARNING,
    Harm.STUCK: Severity.WARNING,
    Harm.DOUBT: Severity.INFO,
    Harm.TOLD: Severity.INFO,
}
WORST_FIRST = tuple(Severity)


class Patience(NamedTuple):
    """In seconds: how long it must last to be raised, and for how long it must be gone to be over."""

    raise_after: float
    resolve_after: float


PATIENCE: Mapping[Severity, Patience] = {
    Severity.CRITICAL: Patience(5.0, 15.0),
    Severity.WARNING: Patience(15.0, 30.0),
    Severity.INFO: Patience(30.0, 60.0),
}
LONGEST_HOLD_SECONDS = 600.0
CALM_SECONDS = 1800.0
"""What comes back later than so long after it was over is something new."""

FLAPPING = 3
"""From so many returns on it is said to flap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What an alarm is about, as it is now. `count`: of how many things; `since`: since when, None when nobody knows."""

    key: str
    severity: Severity
    state: str
    name: str
    at: Place
    what: str
    why: str = ""
    next: str
    step: str
    to: Place
    since: float | None = None
    count: int = 1

    @property
    def instance(self) -> str:
        """The instance that it is about; blank when it is about something else, or several."""
        return self.at.key if self.at.kind in ("instance", "launches", "weights") else ""


def cause_of(concern: Concern) -> Cause:
    return Cause(
        key=key_of(concern),
        severity=SEVERITIES[concern.harm],
        state=concern.state,
        name=plain(concern.name)[:LONGEST_NAME],
        at=concern.at,
        what=plain(concern.what),
        why=plain(concern.why),
        next=plain(concern.next),
        step=concern.step,
        to=concern.to,
        since=concern.since,
    )


def key_of(concern: Concern) -> str:
    """The concern's own key, of a bounded length: what is said of the same thing in the same state is one alarm."""
    key = plain(concern.key)
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[: LONGEST_KEY - 33]}#{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def plain(text: str) -> str:
    """Others' words may hold a NUL, which no table takes."""
    return text.replace("\x00", "\\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Pending until `raised_at`, then open. `clear_since`: its cause is gone, and may come back. `told`: the severity that
    the webhook was told last, blank for nothing yet, and `told_count` the count."""

    cause: Cause
    began_at: float
    id: int | None = None
    raised_at: float | None = None
    clear_since: float | None = None
    resolved_at: float | None = None
    returns: int = 0
    told: str = ""
    told_count: int = 0

    @property
    def flapping(self) -> bool:
        return self.returns >= FLAPPING

    @property
    def hold_seconds(self) -> float:
        """For how long its cause must be gone.

        >>> warning = Cause(key="k", severity=Severity.WARNING, state="s", name="n", at=Place("x"), what="", next="",
        ...     step="", to=Place("x"))
        >>> [Alarm(cause=warning, began_at=0.0, returns=returns).hold_seconds for returns in (0, 1, 2, 9)]
        [30.0, 60.0, 120.0, 600.0]
        """
        return min(LONGEST_HOLD_SECONDS, PATIENCE[self.cause.severity].resolve_after * 2.0 ** min(self.returns, 10))


MOMENTS = ("began_at", "clear_since")
"""Those that what becomes of an alarm depends on."""


class Fate(enum.Enum):
    """What a round did to an alarm."""

    BEGUN = "begun"
    RAISED = "raised"
    CHANGED = "changed"
    RESOLVED = "resolved"
    DROPPED = "dropped"
    """It was over before it was raised."""


@dataclass(frozen=True, slots=True)
class Step:
    """`alarm` is as it is afterwards."""

    fate: Fate
    alarm: Alarm


class Past(NamedTuple):
    """The last alarm of a key that is over."""

    resolved_at: float
    returns: int


def follow(
    known: Iterable[Alarm], causes: Mapping[str, Cause], past: Mapping[str, Past], *, now: float
) -> Iterator[Step]:
    """What becomes of the alarms that are not over, and which begin. What stays as it is has no step."""
    seen = set()
    for before in known:
        seen.add(before.cause.key)
        cause, alarm = causes.get(before.cause.key), set_right(before, MOMENTS, now)
        step = _gone(alarm, now) if cause is None else _there(alarm, cause, now)
        if step is not None:
            yield step
        elif alarm is not before:
            yield Step(Fate.CHANGED, alarm)
    for key, cause in causes.items():
        if key not in seen:
            last = past.get(key)
            again = last is not None and now - last.resolved_at < CALM_SECONDS
            returns = last.returns + 1 if again and last is not None else 0
            yield Step(Fate.BEGUN, Alarm(cause=cause, began_at=now, returns=returns))


def _gone(alarm: Alarm, now: float) -> Step | None:
    if alarm.clear_since is None:
        return Step(Fate.CHANGED, replace(alarm, clear_since=now))
    if now - alarm.clear_since < alarm.hold_seconds:
        return None
    if alarm.raised_at is None:
        return Step(Fate.DROPPED, alarm)
    return Step(Fate.RESOLVED, replace(alarm, resolved_at=now))


def _there(alarm: Alarm, cause: Cause, now: float) -> Step | None:
    after = replace(alarm, cause=cause)
    if alarm.clear_since is not None:
        after = replace(after, clear_since=None, returns=alarm.returns + 1)
    if alarm.raised_at is None and now - alarm.began_at >= PATIENCE[cause.severity].raise_after:
        return Step(Fate.RAISED, replace(after, raised_at=now))
    return Step(Fate.CHANGED, after) if after != alarm else None


def worse(severity: str, than: str) -> bool:
    """
    >>> worse("critical", "warning"), worse("info", "info"), worse("info", "")
    (True, False, True)
    """
    order = [*WORST_FIRST, ""]
    return order.index(severity) < order.index(than)


def notice_of(alarm: Alarm) -> str:
    """What must be told of it now: "raised", "resolved", "changed" when it is worse than was told, or twice as many; blank
    for nothing. Of what was never told nobody hears that it is over."""
    if alarm.raised_at is None:
        return ""
    if alarm.resolved_at is not None:
        return "resolved" if alarm.told else ""
    if not alarm.told:
        return "raised"
    grown = alarm.cause.count >= 2 * max(1, alarm.told_count)
    return "changed" if grown or worse(alarm.cause.severity, alarm.told) else ""


def settled(
    known: Iterable[Alarm], steps: Iterable[Step], *, webhook: bool
) -> tuple[list[Step], list[tuple[str, Alarm]]]:
    """The steps of a round with what was told put down in them, and what is to be told: a kind of notice and its alarm.

    Without a `webhook` nothing is told; whatever is open when there is one at last, is.
    """
    after = {step.alarm.cause.key: step for step in steps}
    told: list[tuple[str, Alarm]] = []
    if webhook:
        for alarm in known:
            now = after.get(alarm.cause.key, Step(Fate.CHANGED, alarm))
            kind = notice_of(now.alarm)
            if kind:
                noted = replace(now.alarm, told=now.alarm.cause.severity, told_count=now.alarm.cause.count)
                after[alarm.cause.key] = Step(now.fate, noted)
                told.append((kind, noted))
    return list(after.values()), told
