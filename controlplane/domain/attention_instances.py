"""What needs a person in one instance: a table of rules, each about one thing that can be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from . import attention_engines as engines
from . import attention_launches as launches
from . import attention_loads as loads
from .attention import Concern, Harm, Place, counted, sentence
from .attention_seen import SETTLED_SECONDS, STALLED_SECONDS, InstanceSeen
from .routable import Fact, Reason, Verdict

MOST_HOSTS = 4
"""So many are named in a sentence."""


def of_instances(seen: Iterable[InstanceSeen], *, now: float) -> Iterator[Concern]:
    for one in seen:
        for rule in RULES:
            yield from rule(one, now)


def _down(one: InstanceSeen, now: float) -> Iterator[Concern]:
    """It served, and lost ranks since."""
    if one.observed != "down" or not one.wanted or one.kept_back_by_engine:
        return
    current, coming = one.current, one.candidate
    lost = current.size - current.registered if current else 0
    gone = (
        f"{lost:,} of its {current.size:,} ranks {'is' if lost == 1 else 'are'} gone"
        if current
        else "all of its ranks are gone"
    )
    yield Concern(
        harm=Harm.DOWN,
        state="down",
        name=one.name,
        at=one.at,
        what=f"takes no requests: {gone}",
        why=sentence(
            f"missing {current.missing}" if current and current.missing else "",
            one.gone,
            f"launch {coming.number} is coming up with {coming.registered:,} of {coming.size:,}" if coming else "",
        ),
        next=f"Look at {_hosts(one.hosts)}: ranks that start again register by themselves",
        step="Show ranks",
        to=one.at,
        since=one.owing_since,
        size=current.size if current else 0,
    )


def _hosts(known: tuple[str, ...]) -> str:
    """
    >>> _hosts(("10.0.0.1",)), _hosts(("10.0.0.1", "10.0.0.2")), _hosts(())
    ('host 10.0.0.1', 'hosts 10.0.0.1 and 10.0.0.2', 'their hosts')
    """
    if not 0 < len(known) <= MOST_HOSTS:
        return "their hosts"
    return f"host {known[0]}" if len(known) == 1 else f"hosts {', '.join(known[:-1])} and {known[-1]}"


def _shut_out(one: InstanceSeen, now: float) -> Iterator[Concern]:
    """It stands, and whoever chooses workers does not choose it."""
    if one.observed not in ("up", "degraded", "open", "late", "silent", "not_observed") or not one.wanted:
        return
    size = one.current.size if one.current else 0
    if not one.verdict.routable:
        yield _kept_away(one, one.name, Harm.DOWN, one.verdict.reasons[0], size)
        return
    shut = [(group, verdict.reasons[0]) for group, verdict in one.groups if _against(verdict)]
    for group, reason in shut[:2]:
        yield _kept_away(one, f"{one.name} dp{group}", Harm.PART, reason, size // max(1, len(one.groups)))
    if len(shut) > 2:
        more = f"{one.name} in {counted(len(shut) - 2, 'more DP group')}"
        yield _kept_away(one, more, Harm.PART, shut[2][1], size * (len(shut) - 2) // len(one.groups))


def _against(verdict: Verdict) -> bool:
    return not verdict.routable and not any(reason.blocks and reason.fact is Fact.INTENT for reason in verdict.reasons)


def _kept_away(one: InstanceSeen, name: str, harm: Harm, reason: Reason, size: int) -> Concern:
    return Concern(
        harm=harm,
        state="open",
        name=name,
        at=one.at,
        what="takes no requests: every gateway keeps away from it",
        why=sentence(reason.sentence),
        next="Look at what failed there: a breaker closes by itself once probes succeed",
        step="Open gateways",
        to=Place("gateways"),
        since=reason.since,
        size=size,
    )


def _flushing(one: InstanceSeen, now: float) -> Iterator[Concern]:
    since = one.owing_since
    if one.observed != "flushing" or since is None or now - since < SETTLED_SECONDS:
        return
    yield Concern(
        harm=Harm.DOUBT,
        state="flushing",
        name=one.name,
        at=one.at,
        what="answers 503 until every decode has dropped what it cached",
        why=sentence(one.owing_why),
        next="Wait: it ends when each decode was told twice, after a minute at the latest",
        step="Show facts",
        to=one.at,
        since=since,
        size=one.current.size if one.current else 0,
    )


def _degraded(one: InstanceSeen, now: float) -> Iterator[Concern]:
    if one.observed != "degraded" or not one.unanswered:
        return
    size = one.current.size if one.current else one.unanswered
    verb = "does not answer" if one.unanswered == 1 else "do not answer"
    yield Concern(
        harm=Harm.DOUBT,
        state="degraded",
        name=one.name,
        at=one.at,
        what=f"is in doubt: {one.unanswered:,} of its {counted(size, 'rank')} {verb} probes",
        why="They count all the same, for only a refused connection proves that a rank ended.",
        next="See whether they hang, or cannot be reached from here",
        step="Show ranks",
        to=one.at,
        since=one.troubled_at,
        size=one.unanswered,
    )


def _conflicting(one: InstanceSeen, now: float) -> Iterator[Concern]:
    if one.conflicts:
        verb = "claims" if one.conflicts == 1 else "claim"
        yield Concern(
            harm=Harm.DOUBT,
            state="conflict",
            name=f"Engine info of {one.name}",
            at=Place("weights", one.name),
            what=f"is in conflict: {counted(one.conflicts, 'session')} {verb} a rank whose session answers",
            next="End the engine that should not publish, or give it a name of its own",
            step="Show sessions",
            to=Place("weights", one.name),
        )


def _absent(one: InstanceSeen, now: float) -> Iterator[Concern]:
    if one.observed == "missing" and one.wanted and now - one.created_at > STALLED_SECONDS:
        what = "no session of it is published" if one.role == "seed" else "no rank of it is registered"
        weights = (
            "It publishes weights. What has nothing else is added as a seed, before it starts" if one.sessions else ""
        )
        yield Concern(
            harm=Harm.TOLD,
            state="missing",
            name=one.name,
            at=one.at,
            what=f"is enabled, and {what}",
            why=sentence(weights, one.gone),
            next="Start its ranks" if one.sessions else "Start it, or retire it",
            step="Open",
            to=one.at,
            since=one.created_at,
        )


Rule = Callable[[InstanceSeen, float], Iterator[Concern]]

RULES: tuple[Rule, ...] = (
    _down,
    engines.down,
    _shut_out,
    launches.stalled,
    launches.unproven,
    launches.blocked,
    launches.claimed,
    _flushing,
    _degraded,
    engines.doubtful,
    loads.standing_still,
    loads.held_up,
    _conflicting,
    _absent,
)
