"""An engine that knows nothing of us: what to ask its own servers next, and what their answers mean. Pure.

Its KV bootstrap server tells the topology and who sits in each slot, once it believes that all ranks are there; before
that, only how many registered. Its HTTP server says by `startup_time` which start of the engine this is.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .contact import Contact
from .directory import Change, Decision, Directory, Registration
from .launch import CONFIRM_AFTER, Address, Launch, Row
from .settling import settle
from .topology import SharedFacts, Slot, Topology

LISTED_LASTS = 60.0
"""Seconds for which the slots that were read are not read again while nothing else changes."""

GAP_LASTS = 5.0
"""The same while the directory lacks a rank."""

IDENTITY_LASTS = 5.0
WEIGHTS_LAST = 300.0
WEIGHTS_GAP_LASTS = 10.0
UNANSWERED_ROUNDS = 3
"""Time-outs in a row before an observed server is called silent."""


START = "start-"
"""How the token of a launch begins that is a start of its engine."""

KEPT = ("at", "state", "why", "count", "since", "answered_at", "identity", "bound", "said")


class State(enum.StrEnum):
    """What was heard at the observed server last, as a verdict."""

    UNASKED = "unasked"
    """Not asked yet, or not to be asked: its address is not allowed."""
    LISTED = "listed"
    """It tells who its ranks are; of a decode or a seed: it answers."""
    FILLING = "filling"
    """It answers 503: not all of its ranks have registered there."""
    REFUSED = "refused"
    """Nobody listens there: the connection was refused twice."""
    SILENT = "silent"
    """No answer in time, again and again."""
    STRANGE = "strange"
    """Whoever answers there does not speak as the engine's server does."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer, or none. `count`: ranks that a server that is not ready says it has; `why` belongs in a sentence."""

    state: State
    topology: Topology | None = None
    facts: SharedFacts | None = None
    http_port: int | None = None
    count: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of one observed instance between two looks. Times are epoch seconds.

    `at`: where it was heard. `identity`: which start of the engine answers (empty: it does not say); `bound`: the launch
    whose number this start has here, if its token is another. `said`: what its /server_info told of it.
    """

    at: str = ""
    state: State = State.UNASKED
    why: str = ""
    count: int | None = None
    since: float = 0.0
    answered_at: float | None = None
    identity: str = ""
    bound: tuple[int, str] | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    # Not stored: what a new term finds out again.
    refused_at: float | None = None
    unanswered: int = 0
    shape: tuple[Topology, SharedFacts] | None = None
    listed_at: float = 0.0
    identified_at: float = 0.0
    weighed_at: float = 0.0
    published: frozenset[int] = frozenset()
    whole: bool = False
    """Nobody else is expected to publish weights."""


MOMENTS = ("since", "answered_at", "refused_at", "listed_at", "identified_at", "weighed_at")


def hear(memory: Memory, heard: Heard, now: float) -> Memory:
    """The memory after one answer. A refusal counts when it comes again, CONFIRM_AFTER later; silence after some rounds."""
    if heard.state is State.REFUSED:
        if memory.refused_at is None:
            return replace(memory, refused_at=now)
        if now - memory.refused_at < CONFIRM_AFTER:
            return memory
        return replace(_turned(memory, heard, now), shape=None)
    if heard.state is State.SILENT:
        missed = replace(memory, unanswered=memory.unanswered + 1, refused_at=None)
        return _turned(missed, heard, now) if missed.unanswered >= UNANSWERED_ROUNDS else missed
    answered = replace(memory, refused_at=None, unanswered=0)
    if heard.state in (State.LISTED, State.FILLING):
        answered = replace(answered, answered_at=now)
    turned = _turned(answered, heard, now)
    if turned.state is not memory.state:
        # Whoever was away may have come back as somebody else.
        turned = replace(turned, listed_at=0.0, identified_at=0.0, weighed_at=0.0)
    if heard.topology is None or heard.facts is None:
        return replace(turned, shape=None)
    shape = (heard.topology, heard.facts)
    return replace(turned, shape=shape, listed_at=turned.listed_at if shape == memory.shape else 0.0)


def identify(memory: Memory, identity: str, said: Mapping[str, Any], now: float) -> Memory:
    """What /server_info said of the start of the engine; another start may have other ranks."""
    fresh = replace(memory, identity=identity, said=said, identified_at=now)
    return fresh if identity == memory.identity else replace(fresh, listed_at=0.0, weighed_at=0.0)


def wants_identity(memory: Memory, now: float) -> bool:
    return memory.state is not State.LISTED or now - memory.identified_at >= IDENTITY_LASTS


def wants_slots(memory: Memory, directory: Directory, now: float) -> bool:
    """Whether every slot has to be asked for: when something changed, when somebody is missing, or once a minute."""
    if memory.state is not State.LISTED or memory.shape is None:
        return False
    launch = directory.candidate or directory.current
    whole = launch is not None and launch.full and launch.topology == memory.shape[0]
    # Who has thousands of ranks is not asked for all of them each minute.
    lasts = max(LISTED_LASTS if whole else GAP_LASTS, memory.shape[0].size / 16)
    return now - memory.listed_at >= lasts


def wants_weights(memory: Memory, live: Collection[int], now: float) -> bool:
    """`live`: ranks whose sessions are known here. One that ended may have come again."""
    at_rest = memory.whole and all(rank in live for rank in memory.published)
    return now - memory.weighed_at >= (WEIGHTS_LAST if at_rest else WEIGHTS_GAP_LASTS)


def weighed(memory: Memory, published: frozenset[int], total: int | None, now: float) -> Memory:
    """All ranks were asked for their weights. Where nobody knows how many there are, a second look sees no more."""
    whole = len(published) == total if total is not None else bool(published) and published == memory.published
    return replace(memory, published=published, whole=whole, weighed_at=now)


def token_of(directory: Directory, memory: Memory, rows: Mapping[Slot, Address]) -> tuple[str | None, Memory]:
    """The launch token of what was read, and the memory that remembers it.

    It is the engine's own start, unless a launch that is known under another token (or none: it came before its engine
    could be asked) is this very start: then that launch goes on.
    """
    launches = [launch for launch in (directory.candidate, directory.current) if launch is not None]
    identity = memory.identity
    for launch in launches:
        if identity and launch.token == identity:
            return identity, memory
    for launch in launches:
        bound = memory.bound[1] if memory.bound is not None and memory.bound[0] == launch.number else None
        if launch.token is not None and launch.token.startswith(START):
            bound = launch.token
        if bound and identity and bound != identity:
            continue
        if (bound and identity) or _same_ranks(launch, rows):
            return launch.token, replace(memory, bound=(launch.number, identity or bound or ""))
    return identity or None, replace(memory, bound=None)


def missing_again(directory: Directory, listed: Mapping[Slot, Address], *, why: str, now: float) -> Decision:
    """Take out who is not listed (any more), unless it answers us or did before: of those, probes tell."""
    change = Change(directory, now)
    for launch in list(directory.launches()):
        gone = [row.slot for row in launch.rows.values() if listed.get(row.slot) != row.address and _unproven(row)]
        if gone:
            change.unseat(launch, gone, why)
    settle(change)
    return change.done()


def registrations(
    topology: Topology,
    facts: SharedFacts,
    listed: Mapping[Slot, Address],
    *,
    token: str | None,
    http_port: int | None,
    flags: Mapping[str, tuple[str, ...]],
) -> list[Registration]:
    """What each listed rank would have sent here. The port of the API is that of the host of slot 0."""
    return [
        Registration(
            slot,
            topology,
            facts,
            ip,
            port,
            http_port if slot == Slot(0, 0, 0, 0) else None,
            token,
            flags.get(ip, ()),
        )
        for slot, (ip, port) in listed.items()
    ]


def ranks_of(topology: Topology | None, said: Mapping[str, Any]) -> int | None:
    """How many keys its engine-info server can have: its tensor-parallel ranks; None when nobody knows."""
    told = said.get("world_tp_size")
    if isinstance(told, int):
        return told
    return topology.dp * topology.cp * topology.tp if topology is not None else None


def stored(memory: Memory) -> str:
    """What outlives a restart of ours, as JSON."""
    return json.dumps({name: getattr(memory, name) for name in KEPT}, ensure_ascii=False)


def restored(text: str) -> Memory:
    """
    >>> restored(stored(Memory("http://a", State.LISTED, bound=(1, "x")))).bound
    (1, 'x')
    """
    known = {name: value for name, value in (json.loads(text) if text else {}).items() if name in KEPT}
    bound = known.get("bound")
    return Memory(
        **{**known, "state": State(known.get("state", State.UNASKED)), "bound": (bound[0], bound[1]) if bound else None}
    )


def sentence(memory: Memory) -> str:
    """What is known of the observed server, for people."""
    match memory.state:
        case State.LISTED:
            return f"{memory.at} answers"
        case State.FILLING:
            many = f": {memory.count} registered there" if memory.count is not None else ""
            return f"{memory.at} answers that not all of its ranks have registered{many}"
        case State.REFUSED:
            return f"{memory.at} refuses connections: nobody listens there"
        case State.SILENT:
            return f"{memory.at} does not answer in time"
        case State.STRANGE:
            return f"{memory.at} answers, but not as the engine's server does: {memory.why}"
    return f"{memory.at} was not asked" + (f": {memory.why}" if memory.why else " yet")


def _turned(memory: Memory, heard: Heard, now: float) -> Memory:
    since = memory.since if heard.state is memory.state else now
    return replace(memory, state=heard.state, why=heard.why, count=heard.count, since=since)


def _same_ranks(launch: Launch, rows: Mapping[Slot, Address]) -> bool:
    """Whoever sits in the launch sits at the same address in what was read."""
    return bool(launch.rows) and all(rows.get(row.slot) == row.address for row in launch.rows.values())


def _unproven(row: Row) -> bool:
    """Never reached by a probe, and never will be: nothing else can tell that it is gone."""
    return not row.greeted and row.contact not in (Contact.UP, Contact.SILENT)
