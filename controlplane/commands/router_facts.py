"""What is written about routers: who is in, who may be in, why somebody is not, and the breakers that they report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.databases import FACTS
from controlplane.domain.reports import WHOLE_INSTANCE, BreakerReport
from controlplane.domain.routers import Held, Member, NotNow, Removal, Steps, Worker
from controlplane.ledger.append import NewEvent
from controlplane.models import Breaker, Instance, Router, RouterMember

from .reports import turn
from .transaction import record

GONE = "it is not in the router any more"
MAX_PROBLEM = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at a router brought. `at` is when the round began; `breakers` by URL, None when nobody could say;
    `unread` is why, where somebody should."""

    at: float
    steps: Steps
    held: Sequence[Held]
    breakers: Mapping[str, str] | None
    desired: Mapping[str, Worker | NotNow]
    unread: str = ""

    @property
    def gone(self) -> dict[str, str]:
        """Who is not in the list any more, by instance, and why."""
        stays = {removal.instance for removal in self.kept_all_the_same}
        taken_out = {r.instance: r.why for r in self.steps.removals if r.instance not in stays}
        return {**dict(self.steps.gone), **taken_out}

    @property
    def kept_all_the_same(self) -> list[Removal]:
        """Whom the router was told to let go, and lists still."""
        left = {one.id for one in self.held}
        return [removal for removal in self.steps.removals if removal.held.id in left]

    def in_step(self, known: Sequence[Member]) -> bool:
        """Whether the router holds exactly those of its members that it shall."""
        kept = dict(self.steps.kept)
        wanted = {m.instance for m in known if m.wanted and isinstance(self.desired.get(m.instance), Worker)}
        return wanted == kept.keys() and not self.kept_all_the_same


def members(router_id: int) -> list[Member]:
    # In one order, in which rounds that run at once wait for each other's rows instead of dead-locking.
    rows = RouterMember.objects.using(FACTS).filter(router_id=router_id).order_by("instance")
    return [
        Member(row.instance, row.wanted, row.present, row.worker_id, row.worker_url, row.changed_at) for row in rows
    ]


def away(router: Router, problem: str) -> None:
    """It could not be asked. What it held when it last could is kept: it may go on with it."""
    if router.state != Router.State.AWAY or router.problem != problem:
        rows = Router.objects.using(FACTS).filter(pk=router.pk)
        rows.update(state=Router.State.AWAY, problem=problem[:MAX_PROBLEM])


def say(router: Router, sentences: Mapping[str, str]) -> None:
    """Why these are not in it."""
    own = RouterMember.objects.using(FACTS).filter(router_id=router.pk)
    for name, sentence in sentences.items():
        own.filter(instance=name).exclude(sentence=sentence).update(sentence=sentence)


def claim(router: Router, ready: Mapping[str, Worker]) -> dict[str, Worker]:
    """Write down that the router may send to these, before it is told; those whose intent changed meanwhile are left out.

    Whoever cordons takes the same lock: a cordon that comes after finds the member present, and waits for it to go.
    """
    at = time.time()

    def work() -> tuple[dict[str, Worker], list[NewEvent]]:
        locked = Instance.objects.using(FACTS).select_for_update(no_key=True).order_by("name")
        enabled = locked.filter(name__in=ready, intent=Instance.Intent.ENABLED).values_list("name", flat=True)
        own = RouterMember.objects.using(FACTS).filter(router_id=router.pk, wanted=True, present=False)
        claimed = {}
        for name in list(enabled):
            worker = ready[name]
            if own.filter(instance=name).update(
                present=True, worker_id="", worker_url=worker.url, sentence="the router was told of it", changed_at=at
            ):
                claimed[name] = worker
        return claimed, []

    return record(work)


def give_back(router: Router, sentences: Mapping[str, str]) -> None:
    """The router would not take these: it has not got them."""
    own = RouterMember.objects.using(FACTS).filter(router_id=router.pk, present=True, worker_id="")
    for name, sentence in sentences.items():
        own.filter(instance=name).update(present=False, sentence=sentence, changed_at=time.time())


def write(router: Router, known: Sequence[Member], seen: Seen) -> int:
    """Store what was seen and what was done; how many workers came or went.

    Rounds that run at once see the same: each change is made only where the row is as this round read it.
    """
    at = time.time()

    def work() -> tuple[int, list[NewEvent]]:
        row = Router.objects.using(FACTS).select_for_update(no_key=True).filter(pk=router.pk).first()
        if row is None or row.url != router.url:
            # It was removed or moved meanwhile: this look was at something else.
            return 0, []
        events = [*_went(row, known, seen, at), *_came(row, known, seen, at)]
        count = len(events)
        if seen.steps.restarted and events:
            events.insert(0, NewEvent("router.restarted", "", {"router": row.name}))
            row.restarts += 1
        _stay(row, known, seen, at)
        _sick(row, seen)
        if seen.breakers is not None:
            events += _breakers(row, seen, at)
            if seen.breakers:
                row.breakers_at = _latest(row.breakers_at, seen.at, at)
        _explain(row, known, seen)
        row.problem = _problem(row, seen)
        row.state = Router.State.IN_STEP if seen.in_step(known) else Router.State.CHANGING
        row.checked_at = _latest(row.checked_at, seen.at, at)
        row.save(using=FACTS, update_fields=["state", "problem", "checked_at", "breakers_at", "restarts"])
        RouterMember.objects.using(FACTS).filter(router_id=row.pk, wanted=False, present=False).delete()
        return count, events

    return record(work)


def _latest(known: float | None, seen: float, now: float) -> float:
    """A slow round must not make newer knowledge look old; nor a clock that was ahead, since set back, old knowledge new."""
    return seen if known is None or known > now else max(seen, known)


def _went(row: Router, known: Sequence[Member], seen: Seen, at: float) -> Iterator[NewEvent]:
    taken_out = {removal.instance: removal.held.worker.url for removal in seen.steps.removals}
    for member in known:
        name = member.instance
        why = seen.gone.get(name)
        if why is None:
            continue
        changed = _change(row, member, present=False, worker_id="", sentence=why, changed_at=at)
        # One that was sent but never appeared has not been in.
        if changed and (member.worker_id or name in taken_out):
            data = {"router": row.name, "worker": taken_out.get(name, member.url), "why": why}
            yield NewEvent("router.worker_removed", name, data)


def _came(row: Router, known: Sequence[Member], seen: Seen, at: float) -> Iterator[NewEvent]:
    kept = dict(seen.steps.kept)
    for member in known:
        held = kept.get(member.instance)
        if held is None or (member.present and member.worker_id == held.id and member.url == held.worker.url):
            continue
        now = {"present": True, "worker_id": held.id, "worker_url": held.worker.url, "sentence": "", "changed_at": at}
        if _change(row, member, **now) and not (member.present and member.worker_id):
            why = "it is enabled and ready" if member.present else "the router held it already"
            data = {"router": row.name, "worker": held.worker.url, "why": why}
            yield NewEvent("router.worker_added", member.instance, data)


def _stay(row: Router, known: Sequence[Member], seen: Seen, at: float) -> None:
    """It may send to whom it does not let go, whoever put them in: a drain must not take them for absent."""
    stuck = {removal.instance: removal for removal in seen.kept_all_the_same}
    for member in known:
        removal = stuck.get(member.instance)
        if removal is not None and not (member.present and member.worker_id):
            there, why = removal.held, f"the router keeps it, although {removal.why}"
            now = {"present": True, "worker_id": there.id, "worker_url": there.worker.url, "changed_at": at}
            _change(row, member, **now, sentence=why)


def _sick(row: Router, seen: Seen) -> None:
    """What the router thinks of the health of those that it holds as it shall."""
    own = RouterMember.objects.using(FACTS).filter(router_id=row.pk)
    for healthy in {held.healthy for _, held in seen.steps.kept}:
        names = [name for name, held in seen.steps.kept if held.healthy is healthy]
        before = own.filter(instance__in=names)
        before = before.filter(healthy__isnull=False) if healthy is None else before.exclude(healthy=healthy)
        before.update(healthy=healthy)


def _change(row: Router, member: Member, **values: Any) -> bool:
    """Whether the row was as it was read; it is changed then."""
    own = RouterMember.objects.using(FACTS).filter(router_id=row.pk, instance=member.instance)
    return bool(own.filter(changed_at=member.since).update(**values))


def _explain(row: Router, known: Sequence[Member], seen: Seen) -> None:
    """Whoever shall not be in it has the reason beside it, also when there was nothing to take out."""
    for member in known:
        want = seen.desired.get(member.instance)
        if isinstance(want, NotNow) and member.wanted and not member.present:
            own = RouterMember.objects.using(FACTS).filter(router_id=row.pk, instance=member.instance, present=False)
            own.exclude(sentence=want.why).update(sentence=want.why)


def _problem(row: Router, seen: Seen) -> str:
    """The first of those that shall be in it and are not, and why."""
    own = RouterMember.objects.using(FACTS).filter(router_id=row.pk, wanted=True, present=False).order_by("instance")
    missing = [one for one in own.exclude(sentence="") if isinstance(seen.desired.get(one.instance), Worker)]
    if missing:
        return f"{missing[0].instance} is not in it: {missing[0].sentence}"[:MAX_PROBLEM]
    stuck = next(iter(seen.kept_all_the_same), None)
    return f"{stuck.instance} is still in it, although {stuck.why}"[:MAX_PROBLEM] if stuck else seen.unread


def _breakers(row: Router, seen: Seen, at: float) -> list[NewEvent]:
    said, kept, speaker = seen.breakers or {}, dict(seen.steps.kept), f"router:{row.name}"
    states = {name: (said[held.worker.url], "") for name, held in kept.items() if held.worker.url in said}
    # Whoever is not in it has no breaker there: what is still open of him is closed.
    for name in Breaker.objects.using(FACTS).filter(gateway=speaker).values_list("instance", flat=True):
        if name not in kept:
            states[name] = ("closed", GONE)
    reports = {
        (name, WHOLE_INSTANCE): BreakerReport(name, WHOLE_INSTANCE, state, 0.0, why)
        for name, (state, why) in states.items()
    }
    return turn(speaker, reports, at=at)


def close_breakers(router: Router) -> list[NewEvent]:
    """Nobody can say any more how they stand."""
    names = Breaker.objects.using(FACTS).filter(gateway=f"router:{router.name}").values_list("instance", flat=True)
    said = {
        (name, WHOLE_INSTANCE): BreakerReport(name, WHOLE_INSTANCE, "closed", 0.0, "its metrics are not read any more")
        for name in names
    }
    return turn(f"router:{router.name}", said, at=time.time())
