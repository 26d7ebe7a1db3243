"""When what happened to one room, and who saw it: created, registered, first asked, answered, …, finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .claims import Asked, Held, Knowledge, Said, after_rung


@dataclass(frozen=True, slots=True)
class Moment:
    """`at` is None for what nobody saw."""

    name: str
    knowledge: Knowledge
    at: float | None
    who: str
    sentence: str


def timeline(held: Sequence[Held], said: Sequence[Said], asked: Sequence[Asked] = ()) -> tuple[Moment, ...]:
    """
    >>> told = [Said("resolved", "passed", "d/1", "p", 103.0, took=1.0), Said("consumed", "passed", "d/1", "p", 104.0)]
    >>> for one in timeline([Held("p", 1, 100.0, True, 3, 4, False, "")], told): print(one.name, one.knowledge, one.at)
    created inferred 100.0
    registered observed 100.0
    first asked reported 102.0
    answered reported 103.0
    connected not_observed None
    verified not_observed None
    finished reported 104.0
    """
    later = [
        _registered(held, said),
        _first_asked(said, asked),
        _answered(said, asked),
        _rung("connected", said),
        _rung("verified", said),
        _finished(said),
    ]
    return (_created(later), *later)


def _created(later: Iterable[Moment]) -> Moment:
    known = [one.at for one in later if one.at is not None]
    if not known:
        return _unseen("created")
    # Whoever mints a room tells nobody.
    return Moment(
        "created", Knowledge.INFERRED, min(known), "control plane", "at the latest: it is first spoken of then"
    )


def _registered(held: Sequence[Held], said: Sequence[Said]) -> Moment:
    if held:
        first = min(held, key=lambda one: one.bound_at)
        return Moment("registered", Knowledge.OBSERVED, first.bound_at, "bootstrap", f"bound to {first.where}")
    return _rung("registered", said)


def _first_asked(said: Sequence[Said], asked: Sequence[Asked]) -> Moment:
    if asked:
        first = min(asked, key=lambda one: one.asked_at)
        return Moment("first asked", Knowledge.OBSERVED, first.asked_at, "bootstrap", f"by {first.asked_by}")
    timed = [(one.at - one.took, one) for one in said if one.rung == "resolved" and one.took is not None]
    if not timed:
        return _unseen("first asked")
    at, one = min(timed, key=lambda pair: pair[0])
    return Moment("first asked", Knowledge.REPORTED, at, one.who, f"{one.took:.3g} s before it had its answer")


def _answered(said: Sequence[Said], asked: Sequence[Asked]) -> Moment:
    told = [(one.answered_at, one) for one in asked if one.answered_at is not None]
    if told:
        at, one = min(told, key=lambda pair: pair[0])
        return Moment(
            "answered", Knowledge.OBSERVED, at, "bootstrap", f"told {one.asked_by}, {at - one.asked_at:.3g} s later"
        )
    found = _rung("resolved", said)
    return Moment("answered", found.knowledge, found.at, found.who, found.sentence)


def _rung(name: str, said: Sequence[Said]) -> Moment:
    own = [one for one in said if one.rung == name and one.passed]
    if not own:
        return _unseen(name)
    first = min(own, key=lambda one: one.at)
    after = after_rung(first.took)
    return Moment(name, Knowledge.REPORTED, first.at, first.who, f"with {first.instance}{after}")


def _finished(said: Sequence[Said]) -> Moment:
    failures = [one for one in said if not one.passed]
    consumed = [one for one in said if one.rung == "consumed" and one.passed]
    if failures:
        first = min(failures, key=lambda one: one.at)
        why = f": {first.detail}" if first.detail else ""
        return Moment("finished", Knowledge.REPORTED, first.at, first.who, f"{first.result} at {first.rung}{why}")
    if consumed:
        last = max(consumed, key=lambda one: one.at)
        return Moment("finished", Knowledge.REPORTED, last.at, last.who, f"the KV of {last.instance} was consumed")
    return _unseen("finished")


def _unseen(name: str) -> Moment:
    return Moment(name, Knowledge.NOT_OBSERVED, None, "", "")
