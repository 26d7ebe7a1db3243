"""Whether a gateway may send work to an instance or DP group: registration, health, intent and breaker all say yes.

Whoever is not routable is so for a reason that can be said in a sentence. A verdict that nobody renews stays, and is
shown as old: our own restart makes nobody unroutable. Sentences carry no ages; those stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .engine_health import BLOCKING
from .subject import Breaker, Engine, Fact, Health, Reason, Registration, Subject, Verdict, Wish

__all__ = [
    "Breaker",
    "Engine",
    "Fact",
    "Health",
    "Reason",
    "Registration",
    "Subject",
    "Verdict",
    "Wish",
    "explain",
    "intent_of",
    "of_group",
]


def explain(subject: Subject) -> Verdict:
    """
    >>> up = Subject(name="p", role="prefill", registration=Registration(True, 1, 4, 4, proven=True), health=Health(200))
    >>> explain(up).routable
    True
    """
    said = [reason for fact in Fact for reason in JUDGES[fact](subject)]
    if subject.group is None and not any(reason.blocks for reason in said):
        said += _no_group_left(subject)
    against = sorted((reason for reason in said if reason.blocks), key=lambda reason: reason.code != "retired")
    return Verdict(not against, tuple(against + [reason for reason in said if not reason.blocks]))


def of_group(subject: Subject, group: int) -> Subject:
    """The same facts, asked about one of its DP groups."""
    return replace(subject, group=group)


def _no_group_left(subject: Subject) -> list[Reason]:
    """The instance as a whole is fine, but each of its DP groups is not: whoever minds DP ranks can choose none."""
    against = []
    for group in subject.groups:
        verdict = explain(of_group(subject, group))
        if verdict.routable:
            return []
        against.append(verdict.reasons[0])
    if not against:
        return []
    said = "; ".join(reason.sentence for reason in against[:4])
    more = f"; and {len(against) - 4} more" if len(against) > 4 else ""
    sentence = f"none of the {len(against)} DP groups is routable: {said}{more}"
    return [replace(against[0], code="groups", sentence=sentence)]


def intent_of(wishes: tuple[Wish, ...], group: int | None) -> str:
    """The intent that holds: the whole instance's, unless that is enabled and the group's is not."""
    return _binding(wishes, group).intent


def _binding(wishes: tuple[Wish, ...], group: int | None) -> Wish:
    whole = next((wish for wish in wishes if wish.group is None), Wish("enabled"))
    if whole.intent != "enabled" or group is None:
        return whole
    return next((wish for wish in wishes if wish.group == group), whole)


def _registration(subject: Subject) -> list[Reason]:
    at, name = subject.registration, subject.name

    def reason(code: str, sentence: str, *, blocks: bool = True) -> list[Reason]:
        return [
            Reason(Fact.REGISTRATION, code, sentence, blocks, at.since, subject.watched_at, old=not subject.watched)
        ]

    if subject.role == "seed":
        return reason("seed", f"{name} is a seed of weights: it takes no requests")
    if at.launch is None:
        if not at.expected:
            return reason("not_expected", f"{name} is a {subject.role}: decodes do not register here", blocks=False)
        return reason("nobody", f"no rank of {name} is registered")
    if at.registered < at.size:
        nowhere = "; until it is complete the directory answers for none of its DP groups" if _split(subject) else ""
        return reason("incomplete", f"launch {at.launch} is not complete: {at.missing}{nowhere}")
    if not at.proven:
        return reason("unproven", f"launch {at.launch} has all of its ranks, but is not proven by probes yet")
    return reason("complete", f"launch {at.launch} is complete: {at.registered}/{at.size}", blocks=False)


def _split(subject: Subject) -> bool:
    return subject.group is not None and len(subject.groups) > 1


def _health(subject: Subject) -> list[Reason]:
    at, name = subject.health, subject.name

    def reason(code: str, sentence: str, *, blocks: bool = False, old: bool = False) -> list[Reason]:
        stale = old or not subject.watched
        return [Reason(Fact.HEALTH, code, sentence, blocks, at.since, subject.watched_at, stale)]

    if at.status == 404:
        return reason("gone", f"/health of {name} answers 404")
    if at.status != 200:
        why = f": {at.reason}" if at.reason else ""
        code = "lost_rank" if at.lost else "flushing"
        return reason(code, f"/health of {name} answers {at.status}{why}", blocks=True)
    if subject.registration.launch is None:
        if subject.engine is not None and not subject.registration.expected:
            # Of a decode its engine tells.
            return []
        return reason("unknown", f"nobody registered in {name}, so nobody is probed")
    if at.verified < at.probeable:
        missing = at.probeable - at.verified
        return reason(
            "unverified",
            f"/health of {name} answers 200; {missing} of {at.probeable} ranks did not answer a probe in this term",
            old=True,
        )
    if not at.probeable:
        return reason("not_probed", f"/health of {name} answers 200; none of its ranks can be probed from here")
    return reason("up", f"/health of {name} answers 200; {at.answering} of {at.probeable} ranks answer")


def _health_of_both(subject: Subject) -> list[Reason]:
    return [*_health(subject), *_engine(subject)]


def _engine(subject: Subject) -> list[Reason]:
    """Its own HTTP server takes the requests. What proves nothing keeps nobody away."""
    at = subject.engine
    if at is None:
        return []
    sentence = f"the engine of {subject.name} is {at.state}: {at.sentence}"
    return [
        Reason(Fact.HEALTH, f"engine_{at.state}", sentence, at.state in BLOCKING, at.since, at.seen_at, at.old),
    ]


def _intent(subject: Subject) -> list[Reason]:
    wish = _binding(subject.wishes, subject.group)

    def reason(code: str, sentence: str, *, blocks: bool) -> list[Reason]:
        return [Reason(Fact.INTENT, code, sentence, blocks, wish.at, wish.at)]

    if wish.intent != "enabled":
        what = subject.name if wish.group is None else f"DP group {wish.group} of {subject.name}"
        return reason(wish.intent, f"{what} is {wish.intent}{_by(wish)}", blocks=True)
    if subject.group is None:
        known = subject.groups
        kept = [
            w
            for w in subject.wishes
            if w.group is not None and w.intent != "enabled" and (not known or w.group in known)
        ]
        if kept:
            closed = ", ".join(f"DP group {w.group} is {w.intent}{_by(w)}" for w in kept[:4])
            more = f", and {len(kept) - 4} more are not enabled" if len(kept) > 4 else ""
            return reason("some_groups", f"{closed}{more}", blocks=False)
    return reason("enabled", f"{subject.name} is enabled{_by(wish)}", blocks=False)


def _by(wish: Wish) -> str:
    who = f" by {wish.actor}" if wish.actor else ""
    return f"{who}: {wish.reason}" if who and wish.reason else who


def _breaker(subject: Subject) -> list[Reason]:
    """One gateway's open breaker keeps that gateway away; only all of them together make somebody unroutable."""
    own = [b for b in subject.breakers if b.gateway in subject.selectors and b.group in (None, subject.group)]
    standing = [b for b in own if b.state != "closed"]
    shut = {b.gateway for b in standing if b.state == "open"}
    if not subject.selectors:
        return [Reason(Fact.BREAKER, "no_gateway", "no gateway has joined, so no breaker stands in the way")]
    if not standing:
        many = len(subject.selectors)
        closed = f"{many} gateways have" if many > 1 else f"{subject.selectors[0]} has"
        return [Reason(Fact.BREAKER, "closed", f"{closed} no open breaker for it")]
    everywhere = shut >= set(subject.selectors)
    return [
        Reason(
            Fact.BREAKER,
            breaker.state,
            f"the breaker of {breaker.gateway} is {BREAKERS[breaker.state]}"
            + (f": {breaker.reason}" if breaker.reason else ""),
            everywhere and breaker.state == "open",
            breaker.since,
            breaker.heard_at,
            breaker.old,
        )
        for breaker in standing
    ]


BREAKERS = {"open": "open", "half_open": "half open, and lets a probe through"}

JUDGES: Mapping[Fact, Callable[[Subject], list[Reason]]] = {
    Fact.REGISTRATION: _registration,
    Fact.HEALTH: _health_of_both,
    Fact.INTENT: _intent,
    Fact.BREAKER: _breaker,
}
