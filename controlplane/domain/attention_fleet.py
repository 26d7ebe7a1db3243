"""What needs a person beside the instances themselves: who leads, drains, who chooses workers, pairs, refusals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .attention import Concern, Harm, Place, counted, sentence
from .attention_seen import InstanceSeen
from .obstacles import Obstacle

UNWATCHED_SECONDS = 10.0
"""A drain is looked at every second: after this long without, its task does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSeen:
    id: int
    what: str
    progress: str
    reason: str
    actor: str
    started_at: float
    deadline_at: float | None
    checked_at: float | None
    blockers: Sequence[Obstacle]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChooserSeen:
    """A gateway (`router` False) or a router. `quiet`: silent beyond its lease, or out of reach; `in_step`: a router that holds
    whom it shall."""

    name: str
    router: bool
    quiet: bool
    heard_at: float | None
    problem: str = ""
    in_step: bool = False
    held_up: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Instances that fit none of the other role (`router` blank), or a pair that one router may put together.

    `prefill` and `decode` are the pair to look at; `name` is which of the two is told of.
    """

    name: str
    prefill: str
    decode: str
    others: int
    alike: int
    field: str
    sentence: str
    what_happens: str
    since: float | None
    router: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Registrations of one instance that were refused lately; the newest of them in words."""

    instance: str
    count: int
    what: str
    source: str
    sentence: str
    at: float


def leadership(*, leads: bool, holder: str, heard_at: float | None) -> Iterator[Concern]:
    if leads:
        return
    yield Concern(
        harm=Harm.NOTHING_SERVED,
        state="away",
        name="The bootstrap process",
        at=Place("events"),
        what="does not lead: nobody answers look-ups, and nobody can register",
        why=sentence(f"the last to lead was {holder}" if holder else "none has ever led here", EARLIER),
        next="Start manage.py bootstrap, or read its log",
        step="Show events",
        to=Place("events"),
        since=heard_at,
        size=2**40,
    )


EARLIER = "what is shown of ranks is what was last seen; whoever is known already goes on"


def nothing_left(seen: Iterable[InstanceSeen]) -> Iterator[Concern]:
    """Instances of a role are wanted and were there, and none of them can be sent a request."""
    by_role: dict[str, list[InstanceSeen]] = {"prefill": [], "decode": []}
    for one in seen:
        if one.role in by_role and one.wanted and one.observed not in ("missing", "filling"):
            by_role[one.role].append(one)
    for role, wanted in by_role.items():
        if len(wanted) > 1 and not any(one.verdict.routable for one in wanted):
            yield Concern(
                harm=Harm.NOTHING_SERVED,
                state="down",
                name=f"All {len(wanted):,} {role} instances",
                at=Place("role", role),
                what="take no requests: nothing new can be served",
                why=sentence(f"{wanted[0].name}: {wanted[0].verdict.because}"),
                next="Begin with the one that lacks least",
                step="Show them",
                to=Place("role", role),
                since=max((one.owing_since for one in wanted if one.owing_since), default=None),
                size=sum(one.current.size for one in wanted if one.current),
            )


def of_drains(drains: Iterable[DrainSeen], *, now: float) -> Iterator[Concern]:
    for one in drains:
        looked = one.checked_at or one.started_at
        unwatched = now - looked > UNWATCHED_SECONDS
        if one.progress == "drained" or not (one.blockers or unwatched or one.progress == "overdue"):
            continue
        overdue = one.progress == "overdue"
        stands = one.blockers[0] if one.blockers else PROOF
        others = len(one.blockers) - (0 if unwatched else 1)
        yield Concern(
            harm=Harm.PART if overdue else Harm.STUCK,
            state="overdue" if overdue else "blocked",
            name=f"Drain of {one.what}",
            at=Place("drain", str(one.id)),
            what="waits: nobody looks at it" if unwatched else f"waits: {stands.sentence}",
            why=sentence(
                f"it waits for {counted(others, 'more thing')}" if others > 0 else "",
                f"begun by {one.actor}" + (f": {one.reason}" if one.reason else ""),
            ),
            next=UNWATCHED if unwatched else stands.next,
            step="Open drain",
            to=Place("drain", str(one.id)),
            since=one.deadline_at if overdue else looked if unwatched else one.started_at,
        )


UNWATCHED = "Start the Celery worker and its beat: drains are looked at every second"
PROOF = Obstacle("proof", "for the proof that nothing is left", "See who could tell that nothing is left")


def of_choosers(seen: Iterable[ChooserSeen]) -> Iterator[Concern]:
    for one in seen:
        if not one.quiet and not one.problem:
            continue
        kind = "router" if one.router else "gateway"
        yield Concern(
            harm=Harm.STUCK if one.quiet else Harm.DOUBT,
            state=("away" if one.router else "silent") if one.quiet else "mismatch",
            name=f"{kind.capitalize()} {one.name}",
            at=Place(kind, one.name),
            what=f"{QUIET[kind]}: it may still send to whom it knew" if one.quiet else AMISS[one.in_step],
            why=sentence(one.problem, _waits(one.held_up)),
            next=f"Restart {one.name}, or remove it if it is gone" if one.quiet else AMENDS[one.in_step],
            step=f"Open {kind}",
            to=Place(kind, one.name),
            since=one.heard_at,
            size=one.held_up,
        )


AMISS = {False: "is not in step", True: "is in step, and does not tell how its breakers stand"}
AMENDS = {False: "See what it would not take, and why", True: "Correct the address of its metrics, or take it away"}
QUIET = {"router": "does not answer", "gateway": "is silent for longer than its lease"}


def _waits(drains: int) -> str:
    return f"{counted(drains, 'drain')} {'waits' if drains == 1 else 'wait'} for it" if drains else ""


def of_pairs(misfits: Iterable[Misfit]) -> Iterator[Concern]:
    for one in misfits:
        alone = one.others == 1 or one.router
        more = f"{counted(one.alike - 1, 'instance')} more of its kind as well" if one.alike > 1 else ""
        yield Concern(
            harm=Harm.PART if one.router else Harm.DOUBT,
            state="incompatible" if one.router else "mismatch",
            name=f"{one.prefill} × {one.decode}" if alone else one.name,
            at=Place("pair", f"{one.prefill}/{one.decode}"),
            what=(
                f"may be put together by router {one.router}: {one.sentence}"
                if one.router
                else f"cannot pair{'' if alone else f' with any of {one.others:,} instances'}: {one.sentence}"
            ),
            why=sentence(one.what_happens, more),
            next=f"Start one of them with the {one.field} of the other",
            step="Compare",
            to=Place("pair", f"{one.prefill}/{one.decode}"),
            since=one.since,
        )


def _nameless(one: Refusal, source: str) -> Concern:
    return Concern(
        harm=Harm.TOLD,
        state="refused",
        name="shared listener",
        at=Place("events", ""),
        what="was asked without a name",
        why=sentence(f"{one.what}{source}: {one.sentence}"),
        next="Let workers and decodes name their instance, or give each a port of its own",
        step="Show events",
        to=Place("refusals", ""),
        since=one.at,
    )


def of_refusals(refusals: Iterable[Refusal]) -> Iterator[Concern]:
    for one in refusals:
        source = f" from {one.source}" if one.source else ""
        if not one.instance:
            yield _nameless(one, source)
            continue
        many = "a registration" if one.count == 1 else f"{one.count:,} different registrations"
        yield Concern(
            harm=Harm.TOLD,
            state="refused",
            name=one.instance,
            at=Place("instance", one.instance),
            what=f"had {many} refused",
            why=sentence(f"{one.what}{source}: {one.sentence}"),
            next="Correct what that rank sends; nothing of it was stored",
            step="Show events",
            to=Place("refusals", one.instance),
            since=one.at,
        )
