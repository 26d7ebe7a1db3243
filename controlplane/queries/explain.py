"""Why an instance is, or is not, serving: in sentences, from the same rows that pages and commands show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.domain.engine_health import BLOCKING

from . import fleet, telling_engines, telling_pairs, telling_standing, workers
from .events import CONTACTS
from .rows import InstanceRow, LaunchRow, LeaderRow, RankRow
from .wording import ago, counted, listing, slot_name, span

NAMED = 8
FLAGS = {
    "loopback-from-afar": "a loopback address that another host sent, so other hosts reach themselves there",
    "outside-networks": "an address outside PDCP_PROBE_NETWORKS",
}


def explain_instance(name: str, *, now: float) -> list[str]:
    """The whole story of one instance, in the order in which an operator asks: does it serve; who wants what of it; who is
    missing, and why; what comes next. Raises Refused (not_found)."""
    with fleet.snapshot():
        instance, found = fleet.instance(name, now=now)
        term = found.leader.token
        last = fleet.launches(instance.id, limit=1)
        numbers = [launch.number for launch in (instance.current, instance.candidate, *last) if launch is not None]
        present = fleet.ranks(instance.id, term=term)
        gone = fleet.departed(instance.id, numbers, term=term)
        beating = workers.beating(name)
        apart = [] if instance.retired else telling_pairs.told(name, instance.role, now=now)
    story = explain(instance, present, gone, last[0] if last else None, leader=found.leader, now=now)
    return story if instance.retired else [*story, *apart, *workers.told(beating, now=now)]


def explain(
    instance: InstanceRow,
    present: Sequence[RankRow],
    gone: Sequence[RankRow],
    last: LaunchRow | None,
    *,
    leader: LeaderRow,
    now: float,
) -> list[str]:
    """`present` are the ranks that count in open launches, `gone` those that left these or `last`, the newest."""
    if instance.retired:
        since = f" since {ago(instance.retired_at, now)}" if instance.retired_at else ""
        by = telling_standing.whose(instance.intent_actor, instance.intent_reason)
        return [f"{instance.name} is retired{since}{by}{';' if by else ':'} whoever asks for it is told 404."]
    said = [*_takes_none(instance), why_in_short(instance, now=now)]
    if not leader.leads(now):
        said.append(who_leads(leader, now=now))
    said += _observed(instance, now=now)
    said += telling_engines.told(instance.engine, now=now)
    said += telling_standing.told(instance, now=now)
    current, candidate = instance.current, instance.candidate
    if current is None and last is not None:
        said += _ended(last, gone, now=now)
    if current is not None:
        own = [rank for rank in present if rank.launch == current.number]
        said += _absent(current, gone, now=now)
        if current.full and not instance.complete:
            said += _unproven(own)
        said += _doubtful(current, own, leading=leader.leads(now))
        said += _claims(current, own)
    said += _health(instance, now=now)
    said += _flagged(instance)
    if candidate is not None:
        said += _coming(instance.name, current, candidate, present, gone, now=now)
    said += _conflicts(instance)
    return said


def why_in_short(instance: InstanceRow, *, now: float) -> str:
    """One sentence: whether look-ups are answered, and if not, the first reason.

    An instance that is not serving because a rank is missing: `a is not serving: 27/32, missing dp1 tp3.`
    """
    name, current = instance.name, instance.current
    if instance.retired:
        return f"{name} is retired."
    if current is None:
        return _nobody(instance)
    if instance.serving:
        since = f", complete for {span(now - current.completed_at)}" if current.completed_at is not None else ""
        doubt = "; whether the launch before it had ended could not be checked" if current.unchecked else ""
        return f"{name} is serving: launch {current.number}, {counted(current.registered, 'rank')}{since}{doubt}."
    if instance.complete:
        return f"{name} is complete, but not serving until every decode has dropped what it cached of it."
    if current.full:
        return f"{name} is not serving yet: {current.progress} are registered, but the launch is not proven."
    return f"{name} is not serving: {current.missing_sentence()}."


def _takes_none(instance: InstanceRow) -> list[str]:
    """A decode does not register, so its engine alone tells whether it takes requests: bad news of it comes first."""
    if instance.role != "decode" or instance.current is not None or instance.engine.state not in BLOCKING:
        return []
    return [f"{instance.name} takes no requests: its engine is {instance.engine.state}."]


def _observed(instance: InstanceRow, *, now: float) -> list[str]:
    """What is known of it was read, not told."""
    if not instance.is_observed:
        return []
    seen = instance.observation
    if seen is None:
        at = instance.observed_url or instance.observed_engine_info_url
        return [f"It is observed at {at}, which has not answered yet; its ranks need not know of this control plane."]
    for_long = f" for {span(now - seen.since)}"
    heard = f"; it answered {ago(seen.answered_at, now)}" if seen.answered_at is not None else ""
    return [f"It is observed: {seen.sentence}{for_long}{heard}. Its ranks need not know of this control plane."]


def who_leads(leader: LeaderRow, *, now: float) -> str:
    if leader.leads(now):
        return f"{leader.holder} leads and was heard from {ago(leader.stamp, now)}."
    if not leader.holder:
        return "No bootstrap process has ever led here, so nobody answers: start `manage.py bootstrap`."
    last = f"was last heard from {ago(leader.stamp, now)}" if leader.stamp > 0 else "has stopped"
    return f"No bootstrap process leads, so nobody answers: {leader.holder} {last}."


def _nobody(instance: InstanceRow) -> str:
    if instance.role == "decode":
        return f"{instance.name} is a decode: decodes ask here, they do not register."
    sessions = counted(instance.sessions, "session")
    if instance.role == "seed" or instance.sessions:
        verb = "is" if instance.sessions == 1 else "are"
        return f"{instance.name} has no ranks registered; {sessions} of engine info {verb} served."
    if instance.left:
        last = instance.left[0]
        why = _without_address(last)
        return f"{instance.name} is not serving: all ranks left, the last of them {last.name} at {last.address}: {why}."
    return f"{instance.name} is not serving: no rank is registered."


def _ended(last: LaunchRow, gone: Sequence[RankRow], *, now: float) -> list[str]:
    """Nobody is left: how the newest launch ended, and what became of its ranks."""
    own = sorted((rank for rank in gone if rank.launch == last.number), key=lambda rank: rank.slot)
    if last.ended_at is None:
        return []
    said = [f"Launch {last.number} was {last.state} {ago(last.ended_at, now)}: {last.ended_reason}."]
    said += [_does_not_count(rank, now=now) for rank in own[:NAMED]]
    if len(own) > NAMED:
        said.append(f"The same holds for {len(own) - NAMED} more; --json names them all.")
    return said


def _absent(launch: LaunchRow, gone: Iterable[RankRow], *, now: float) -> list[str]:
    """Who is missing: those that were here and why they do not count, then those that never came."""
    left = {rank.slot: rank for rank in gone if rank.launch == launch.number}
    said = [_does_not_count(left[slot], now=now) for slot in launch.missing if slot in left][:NAMED]
    never = [slot_name(slot, launch.topology) for slot in launch.missing if slot not in left]
    if never:
        total = launch.expected - launch.registered - len(left)
        said.append(f"Nobody has registered as {listing(never, limit=NAMED, total=total)} in launch {launch.number}.")
    return said


def _does_not_count(rank: RankRow, *, now: float) -> str:
    when = f" ({ago(rank.left_at, now)})" if rank.left_at is not None else ""
    return f"{rank.name} at {rank.address} does not count: {_without_address(rank)}{when}."


def _without_address(rank: RankRow) -> str:
    """Why it left. The reason names the address for those who read it alone; here it was said already."""
    there = f"{rank.ip}:{rank.port}"
    return rank.left_reason.replace(f" at {there}:", " there,").replace(f"{there} refuses", "it refuses")


def _unproven(own: Iterable[RankRow]) -> list[str]:
    waiting = [_named(rank) for rank in own if rank.contact == "unprobed" and "unprobed" not in rank.flags]
    if not waiting:
        return ["One round of probes after the last registration decides; it is under way."]
    verb = "has" if len(waiting) == 1 else "have"
    return [f"{listing(waiting, limit=NAMED)} {verb} not been probed yet."]


def _doubtful(launch: LaunchRow, own: Sequence[RankRow], *, leading: bool) -> list[str]:
    """Ranks that count although nobody proved them, and why they do."""
    said = []
    for contact in ("silent", "unreached", "stranger"):
        names = [_named(rank) for rank in own if rank.contact == contact and "unprobed" not in rank.flags]
        if names:
            verb = "counts" if len(names) == 1 else "count"
            said.append(
                f"{listing(names, limit=NAMED)} {verb}, although the address {CONTACTS[contact]}:"
                " only a refused connection is proof."
            )
    restored = [rank for rank in own if not rank.verified and not rank.flags]
    if restored and leading and launch.completed_at is not None:
        verb, them = ("has", "it was") if len(restored) == 1 else ("have", "they were")
        who = listing(_named(rank) for rank in restored)
        said.append(f"{who} {verb} not been probed since this bootstrap process took over; {them} there before.")
    return said


def _claims(launch: LaunchRow, own: Sequence[RankRow]) -> list[str]:
    owners = {rank.slot: rank.address for rank in own}
    return [
        f"{claim.address} claims {slot_name(claim.slot, launch.topology)} with the launch's own token, but its owner at"
        f" {owners.get(claim.slot, 'another address')} answers."
        for claim in launch.claims[:NAMED]
    ]


def _health(instance: InstanceRow, *, now: float) -> list[str]:
    if instance.debt_since is None:
        return []
    why = f": {instance.health_reason}" if instance.health_reason else ""
    return [f"/health has answered 503 for {span(now - instance.debt_since)}{why}."]


def _flagged(instance: InstanceRow) -> list[str]:
    said = []
    for flag, meaning in FLAGS.items():
        names = [_named(rank) for rank in instance.flagged if flag in rank.flags]
        if names:
            total = instance.flagged_count if len(names) == len(instance.flagged) else None
            verb = "is counted without a probe: it has" if len(names) == 1 else "are counted without a probe: each has"
            said.append(f"{listing(names, total=total)} {verb} {meaning}.")
    return said


def _coming(
    name: str,
    current: LaunchRow | None,
    candidate: LaunchRow,
    present: Sequence[RankRow],
    gone: Sequence[RankRow],
    *,
    now: float,
) -> list[str]:
    """How far the candidate is, and who keeps it from taking over."""
    number = candidate.number
    if not candidate.full:
        return [f"Launch {number} is coming up: {candidate.missing_sentence()}.", *_absent(candidate, gone, now=now)]
    ours = [rank for rank in present if rank.launch == number]
    own = {rank.address for rank in ours}
    rivals = [rank for rank in present if rank.launch != number and rank.address not in own and rank.contact == "up"]
    if current is None or not rivals:
        return [f"Launch {number} has all of its {candidate.expected} ranks; probes decide whether it takes over."]
    verb = "answers" if len(rivals) == 1 else "answer"
    two = f" They are on other hosts: when both are meant to run, two engines are called {name}, and need two names."
    return [
        f"Launch {number} has all of its {candidate.expected} ranks, but waits:"
        f" {listing(_named(rank) for rank in rivals)} of launch {current.number} still {verb}."
        f" `manage.py request supersede {name}` puts launch {number} in charge."
        f"{two if {rank.ip for rank in ours}.isdisjoint(rank.ip for rank in rivals) else ''}"
    ]


def _conflicts(instance: InstanceRow) -> list[str]:
    if not instance.conflicts:
        return []
    verb = "claims" if instance.conflicts == 1 else "claim"
    return [f"{counted(instance.conflicts, 'session')} of engine info {verb} a rank whose session answers."]


def _named(rank: RankRow) -> str:
    return f"{rank.name} at {rank.address}"
