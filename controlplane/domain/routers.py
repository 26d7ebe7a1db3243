"""How a real sglang-router is brought in step: what shall be in it, what is, and the steps between. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

PENDING_SECONDS = 10.0
"""How long an accepted worker may take to appear: it was probed, so the router has only to ask it a few things."""


@dataclass(frozen=True, slots=True)
class Worker:
    """An engine as a router knows it; `port` is where its bootstrap is asked for (prefill only)."""

    url: str
    kind: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class NotNow:
    """Why an instance shall not be in a router, and where its engine is: the router may hold it all the same."""

    why: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """A worker in the router's own list, under the id that the router gave it. `healthy`: what the router thinks of it,
    None where it does not say."""

    id: str
    worker: Worker
    healthy: bool | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """What is remembered of an instance and a router.

    `present`: the router may send to it. `worker_id`: empty until it was seen in the list. `since` is the last change.
    """

    instance: str
    wanted: bool = True
    present: bool = False
    worker_id: str = ""
    url: str = ""
    since: float | None = None

    def pending(self, now: float) -> bool:
        """It was sent to the router and may appear any moment."""
        # Ahead of us by more than that was written by a clock that has been set back since.
        return self.present and not self.worker_id and abs(now - (self.since or 0.0)) <= PENDING_SECONDS


@dataclass(frozen=True, slots=True)
class Removal:
    instance: str
    held: Held
    why: str


@dataclass(frozen=True, slots=True)
class Steps:
    """What to do, by instance. `kept` are held as they shall be; `gone` are not in the list any more, with why."""

    restarted: bool = False
    removals: tuple[Removal, ...] = ()
    additions: tuple[str, ...] = ()
    kept: tuple[tuple[str, Held], ...] = ()
    gone: tuple[tuple[str, str], ...] = ()


def decide(
    desired: Mapping[str, Worker | NotNow], members: Iterable[Member], held: Sequence[Held], *, now: float
) -> Steps:
    """From what the router lists to what it shall hold. `desired` says of each instance which worker, or why none.

    Workers that belong to no member are somebody else's and stay.

    >>> a = Worker("http://a:30000", "prefill", 8998)
    >>> decide({"a": a}, [Member("a")], [], now=0).additions
    ('a',)
    >>> decide({"a": NotNow("a is cordoned", a.url)}, [Member("a")], [Held("1", a)], now=0).removals[0].why
    'a is cordoned'
    """
    known = sorted(members, key=lambda member: member.instance)
    restarted = not held and any(member.worker_id for member in known)
    wants = {member.instance: _wanted(member, desired) for member in known}
    # An engine whose instance was retired may be another instance's now.
    taken = {want.url for want in wants.values() if isinstance(want, Worker)}
    removals: list[Removal] = []
    additions: list[str] = []
    kept: list[tuple[str, Held]] = []
    gone: list[tuple[str, str]] = []
    for member in known:
        name = member.instance
        want = wants[name]
        own = [one for one in held if one.worker.url in _urls(member, want)]
        if isinstance(want, NotNow):
            own = [one for one in own if one.worker.url not in taken]
            removals += [Removal(name, one, want.why) for one in own]
            if not own and member.present and not member.pending(now):
                gone.append((name, want.why))
        elif len(own) == 1 and own[0].worker == want:
            kept.append((name, own[0]))
        elif own:
            why = _difference(own, want)
            removals += [Removal(name, one, why) for one in own]
            additions.append(name)
        elif not member.pending(now):
            if member.present:
                gone.append((name, _absence(member, restarted)))
            additions.append(name)
    return Steps(restarted, tuple(removals), tuple(additions), tuple(kept), tuple(gone))


def _wanted(member: Member, desired: Mapping[str, Worker | NotNow]) -> Worker | NotNow:
    want = desired.get(member.instance, NotNow(f"{member.instance} is not known any more"))
    return want if member.wanted else NotNow(f"{member.instance} was taken off the list", want.url)


def _urls(member: Member, want: Worker | NotNow) -> set[str]:
    """Where it is, and where it was when the router was told."""
    return {url for url in (member.url, want.url) if url}


def _absence(member: Member, restarted: bool) -> str:
    if not member.worker_id:
        return "the router was told of it, but did not take it"
    return "the router restarted" if restarted else "the router does not list it any more"


def _difference(own: Sequence[Held], want: Worker) -> str:
    if len(own) > 1:
        return f"the router held it {len(own)} times"
    there = own[0].worker
    if there.url != want.url:
        return f"its URL is {want.url} now"
    if there.kind != want.kind:
        return f"it is a {want.kind} now, not a {there.kind}"
    return f"its bootstrap port is {want.port} now, not {there.port}"
