"""Why an instance does not work: the questions that an operator asks, in the order in which one excludes the next. Pure.

First whether its workers find us and are all there, then whether they and the engine answer, then whoever sends requests to
it. What follows from an earlier answer says so: the conclusion names causes, not what came of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import inquiry_arrival as arrival
from . import inquiry_serving as serving
from .inquiry_facts import Case
from .questions import Inquiry, conclude, told_apart

BEFORE: Sequence[arrival.Judge] = (
    arrival.directory,
    arrival.port,
    arrival.tenant,
    arrival.registered,
    arrival.answering,
    serving.engine,
    serving.wanted,
    serving.proxy,
    serving.router,
    serving.breaker,
)
AFTER: Sequence[arrival.Judge] = (serving.health, serving.pairs)
"""Between them comes the load: its answer depends on the time."""

KEYS = (
    *("directory", "port", "tenant", "registered", "answering", "engine", "wanted", "proxy", "router", "breaker"),
    *("policy", "health", "pairs"),
)

NOT_FOUND = ("directory", "port", "tenant")
NOT_WELL = ("registered", "answering", "engine")
EXPLAINS: Mapping[str, Sequence[str]] = {
    "registered.nobody": NOT_FOUND,
    "registered.never": NOT_FOUND,
    "registered.dead": ("port.nobody", "port.silent"),
    "engine": (
        *("port.nobody", "port.silent", "registered.dead"),
        *("answering.silent", "answering.refusing", "answering.partition"),
    ),
    "proxy.all_down": ("engine", *NOT_WELL, "port"),
    "router": ("proxy", "engine", "wanted"),
    "breaker": (*NOT_FOUND, *NOT_WELL),
    "policy": NOT_WELL,
    "health": (*NOT_FOUND, *NOT_WELL),
}
"""A "no" (by its question, or question and code), and the earlier ones that explain it."""


def inquire(case: Case, *, now: float) -> Inquiry:
    """
    >>> from .inquiry_facts import Leading, Roster
    >>> found = inquire(Case("p", "prefill", Leading(False), roster=Roster()), now=0.0)
    >>> found.outcome.key, found["registered"].follows
    ('directory', 'directory')
    """
    if case.wished == "retired":
        return conclude([serving.wanted(case)])
    asked = [judge(case) for judge in BEFORE]
    asked += [serving.policy(case, now), *(judge(case) for judge in AFTER)]
    return conclude(told_apart([answer for answer in asked if answer is not None], EXPLAINS))
