"""One word for what is observed of an instance, apart from what operators want of it."""

from __future__ import annotations

from .engine_health import BLOCKING, State
from .routable import Fact, Verdict


def observed(
    verdict: Verdict,
    *,
    unanswered: int = 0,
    owing: bool = False,
    sessions: int = 0,
    conflicts: int = 0,
    engine: State = State.UNKNOWN,
) -> str:
    """`unanswered`: ranks whose last probe was not answered; `owing`: it served, and /health is 503 since; `sessions` and
    `conflicts` of its engine info; `engine`: what its own HTTP server is like.

    >>> from .routable import Health, Registration, Subject, explain
    >>> one = Subject(name="p", role="prefill", registration=Registration(True, 1, 4, 4, proven=True), health=Health(200))
    >>> observed(explain(one)), observed(explain(one), unanswered=1)
    ('up', 'degraded')
    """
    registration = _code(verdict, Fact.REGISTRATION)
    if registration == "seed":
        return "conflict" if conflicts else "live" if sessions else "missing"
    if registration == "not_expected":
        if engine in BLOCKING:
            return engine.value
        return "open" if _shut(verdict) else "not_observed" if engine is State.UNKNOWN else engine.value
    if registration in ("nobody", "incomplete"):
        return "down" if owing else UNSERVED[registration]
    if registration == "unproven":
        return "unproven"
    if {reason.code for reason in verdict.reasons} & {"lost_rank", "flushing"}:
        return "flushing"
    if engine in BLOCKING:
        return engine.value
    return "degraded" if unanswered or engine in (State.LATE, State.SILENT) else "up"


UNSERVED = {"nobody": "missing", "incomplete": "filling"}


def _code(verdict: Verdict, fact: Fact) -> str:
    return next((reason.code for reason in verdict.reasons if reason.fact is fact), "")


def _shut(verdict: Verdict) -> bool:
    return any(reason.blocks for reason in verdict.reasons if reason.fact is Fact.BREAKER)
