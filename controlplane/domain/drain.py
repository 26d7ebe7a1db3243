"""How far a drain is: one table of progress, and the evaluation of what everybody said.

Stop admission first, then prove that nothing is left. `drained` needs everybody who chooses workers to have stopped,
no live room, no room admitted late, and a witness for every DP rank. Whatever nobody can say blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from . import admission, witness
from .admission import SET_BACK_SECONDS, Admission, Blockers, Cordon, Selectors
from .witness import Heard, Reading, Statement, Watch, Zero, Zeros


class Progress(StrEnum):
    WAITING = "waiting"
    EMPTY = "empty"
    DRAINED = "drained"
    OVERDUE = "overdue"
    FORCED = "forced"
    CANCELLED = "cancelled"


class Sign(StrEnum):
    """What can move a drain: what was seen, the clock, operators."""

    RESTARTED = "restarted"
    FILLED = "filled"
    EMPTIED = "emptied"
    PROVEN = "proven"
    DEADLINE = "deadline"
    FORCE = "force"
    CANCEL = "cancel"


P = Progress
OPEN = (P.WAITING, P.EMPTY, P.OVERDUE, P.DRAINED)

TRANSITIONS: Mapping[tuple[Progress, Sign], Progress] = {
    (P.WAITING, Sign.EMPTIED): P.EMPTY,
    (P.WAITING, Sign.DEADLINE): P.OVERDUE,
    (P.WAITING, Sign.FORCE): P.FORCED,
    (P.WAITING, Sign.CANCEL): P.CANCELLED,
    (P.EMPTY, Sign.RESTARTED): P.WAITING,
    (P.EMPTY, Sign.FILLED): P.WAITING,
    (P.EMPTY, Sign.PROVEN): P.DRAINED,
    (P.EMPTY, Sign.DEADLINE): P.OVERDUE,
    (P.EMPTY, Sign.FORCE): P.FORCED,
    (P.EMPTY, Sign.CANCEL): P.CANCELLED,
    (P.OVERDUE, Sign.PROVEN): P.DRAINED,
    (P.OVERDUE, Sign.FORCE): P.FORCED,
    (P.OVERDUE, Sign.CANCEL): P.CANCELLED,
    # Drained is left when the opposite is seen, not when nobody answers any more: that is how an instance ends.
    (P.DRAINED, Sign.RESTARTED): P.WAITING,
    (P.DRAINED, Sign.FILLED): P.WAITING,
    (P.DRAINED, Sign.CANCEL): P.CANCELLED,
}


def step(progress: Progress, sign: Sign) -> Progress:
    """Where a sign leads; a sign that says nothing new leaves everything as it is.

    >>> step(Progress.EMPTY, Sign.PROVEN), step(Progress.WAITING, Sign.PROVEN)
    (<Progress.DRAINED: 'drained'>, <Progress.WAITING: 'waiting'>)
    """
    return TRANSITIONS.get((progress, sign), progress)


def safe_to_delete(progress: str, launch: int | None, current: int | None) -> bool:
    """Only what was drained, and only that launch of it: a restarted instance holds new requests."""
    return progress == P.DRAINED and launch == current


@dataclass(frozen=True, slots=True)
class Room:
    """A room that was bound after the drain began, until when it lives (epoch seconds)."""

    room: int
    dp: int
    until: float


@dataclass(frozen=True, slots=True)
class Rooms:
    """Bindings of what is drained: until when the last from before it began lives, and the first that came late."""

    until: float = 0.0
    late: Room | None = None
    late_until: float = 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What a drain must remember from one look to the next, in the order in which it was learnt."""

    stopped_at: float | None = None
    zeros: Zeros = field(default_factory=dict)
    # Of an instance whose topology nobody registers: the DP ranks that its engine named so far.
    ranks: tuple[int, ...] = ()
    blocked_by: tuple[str, ...] = ()
    # Of a clock that was set back behind the cordon: the first look since, which then stands for that moment.
    anew_at: float | None = None

    def data(self) -> dict[str, Any]:
        return {
            "stopped_at": self.stopped_at,
            "zeros": {key: zero.data() for key, zero in self.zeros.items()},
            "ranks": list(self.ranks),
            "blocked_by": list(self.blocked_by),
            "anew_at": self.anew_at,
        }

    @staticmethod
    def read(data: Mapping[str, Any]) -> Memory:
        return Memory(
            data.get("stopped_at"),
            {key: Zero(**zero) for key, zero in data.get("zeros", {}).items()},
            tuple(data.get("ranks", ())),
            tuple(data.get("blocked_by", ())),
            data.get("anew_at"),
        )


@dataclass(frozen=True, slots=True)
class State:
    """A drain as it is stored. `launch` None: nobody was registered when it began."""

    cordon: Cordon
    progress: Progress
    launch: int | None
    deadline_at: float | None
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen. `groups`: DP groups of the current launch, None when nothing is registered; `registers`: whether
    instances of this role register at all (decodes only ask)."""

    selectors: Selectors
    launch: int | None
    groups: int | None
    watch: Watch
    readings: Sequence[Reading] = ()
    rooms: Rooms = field(default_factory=Rooms)
    registers: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state after a look. `ask_again`: the cordon must be announced anew, with a new revision. `said`: by whom it
    is proven, or not."""

    state: State
    blockers: Blockers
    ask_again: bool = False
    admission: Admission = field(default_factory=Admission)
    said: tuple[Statement, ...] = ()


def evaluate(state: State, seen: Evidence, *, now: float) -> Verdict:
    signs: list[Sign] = []
    memory = state.memory
    news: Blockers = {}
    if seen.launch is not None and seen.launch != state.launch:
        # Other processes, which nobody has asked yet. What the operators want has not changed.
        signs.append(Sign.RESTARTED)
        news = {"restarted": f"launch {seen.launch} is current now, whose processes have not been asked yet"}
        state = replace(state, launch=seen.launch)
        memory = replace(memory, stopped_at=None, zeros={}, ranks=())
    cordon, anew_at = _by_this_clock(state.cordon, memory.anew_at, now)
    ask_again = not cordon.holds_in(seen.selectors.ledger_id, seen.selectors.head)
    stopped = admission.look(cordon, seen.selectors, now=now)
    if ask_again:
        stopped = replace(stopped, admitting={**stopped.admitting, "restored": RESTORED})
    since = memory.stopped_at if stopped.stopped else None
    if since is not None and (since > now + SET_BACK_SECONDS or not seen.selectors.have_stood(since, now)):
        since = None
    ranks, no_ranks = ranks_of(state, seen, memory)
    said = witness.statements(ranks, seen.readings, seen.watch, now=now)
    heard = witness.hear(said, since=since, zeros=memory.zeros)
    rooms = _rooms(seen.rooms, state.cordon, stopped, now)
    if not news:
        signs += _signs(state.progress, stopped, heard, rooms, no_ranks)
    if state.deadline_at is not None and now >= state.deadline_at:
        signs.append(Sign.DEADLINE)
    progress = step_all(state.progress, signs)
    blockers = news | stopped.admitting | stopped.unsure | no_ranks | rooms
    # Of a proof that is begun here and there nobody needs to hear while there is work left.
    blockers |= heard.busy | heard.unknown | (heard.pending if heard.empty else {})
    if progress is P.DRAINED:
        blockers = {}
    memory = Memory(
        (since if since is not None else now) if stopped.stopped else None,
        heard.zeros,
        _named_by_engine(state, seen, memory, ranks),
        tuple(sorted(blockers)),
        anew_at,
    )
    return Verdict(replace(state, progress=progress, memory=memory), blockers, ask_again, stopped, said)


def _by_this_clock(cordon: Cordon, anew_at: float | None, now: float) -> tuple[Cordon, float | None]:
    """The cordon as this clock dates it: what lies ahead of it cannot be compared with what is dated now."""
    if cordon.at <= now + SET_BACK_SECONDS:
        return cordon, None
    anew_at = now if anew_at is None or anew_at > now + SET_BACK_SECONDS else anew_at
    return replace(cordon, at=anew_at), anew_at


def step_all(progress: Progress, signs: Iterable[Sign]) -> Progress:
    for sign in signs:
        progress = step(progress, sign)
    return progress


def _signs(progress: Progress, stopped: Admission, heard: Heard, rooms: Blockers, no_ranks: Blockers) -> list[Sign]:
    if progress is P.DRAINED:
        return [Sign.FILLED] if stopped.admitting or heard.busy or rooms else []
    if rooms or no_ranks or not heard.empty:
        return [Sign.FILLED]
    if stopped.stopped and not heard.pending:
        return [Sign.EMPTIED, Sign.PROVEN]
    return [Sign.EMPTIED]


def ranks_of(state: State, seen: Evidence, memory: Memory) -> tuple[tuple[int, ...], Blockers]:
    """The DP ranks that must be empty, or why nobody knows which they are."""
    group = state.cordon.group
    if seen.groups is not None:
        if group is None:
            return tuple(range(seen.groups)), {}
        if group < seen.groups:
            return (group,), {}
        return (), {"topology": f"dp{group} does not exist in launch {seen.launch}, which has {seen.groups} DP groups"}
    if seen.registers:
        gone = f"launch {state.launch} is gone and no other" if state.launch is not None else "no launch"
        return (), {"launch": f"{gone} is registered here, so nobody knows which DP ranks there are to ask"}
    if group is not None:
        return (group,), {}
    if not seen.watch.engine:
        return _spoken_of(seen, memory)
    named = {reading.dp for reading in seen.readings if reading.kind == witness.ENGINE and reading.dp is not None}
    ranks = tuple(sorted(named | set(memory.ranks)))
    return ranks, {} if ranks else {"ranks": "its engine has not said yet which DP ranks it has"}


def _named_by_engine(state: State, seen: Evidence, memory: Memory, ranks: tuple[int, ...]) -> tuple[int, ...]:
    if seen.registers or state.cordon.group is not None:
        return ()
    return ranks if seen.watch.engine else memory.ranks


def _spoken_of(seen: Evidence, memory: Memory) -> tuple[tuple[int, ...], Blockers]:
    """Where no engine can be asked: words about the whole instance are about every rank, so that one which nobody speaks
    of by itself stands for all the others."""
    if all(reading.dp is not None for reading in seen.readings):
        return memory.ranks, {"ranks": "nobody has said how much is open in all of it, whichever DP ranks it has"}
    named = {reading.dp for reading in seen.readings if reading.dp is not None} | set(memory.ranks)
    return tuple(sorted(named | {max(named, default=-1) + 1})), {}


def _rooms(rooms: Rooms, cordon: Cordon, stopped: Admission, now: float) -> Blockers:
    what = "the instance" if cordon.group is None else f"dp{cordon.group}"
    found: Blockers = {}
    if rooms.until > now:
        found["rooms"] = f"rooms that were bound to {what} before are still live"
    if rooms.late_until > now:
        late = rooms.late
        named = f"room {late.room} was bound to dp{late.dp}" if late else f"a room was bound to {what}"
        found["late"] = f"{named} after the drain began (late admission); {_sender(stopped)}"
    return found


def _sender(stopped: Admission) -> str:
    """A binding comes from the rank that serves it: who sent the request can only be narrowed down."""
    if stopped.waiting_for:
        return f"who sent it is not known, but {', '.join(stopped.waiting_for)} may"
    if stopped.unsure:
        return "who sent it is not known"
    return "whoever sent it had not stopped then, or is nobody that is known here"


RESTORED = "the ledger is not the one in which the drain was announced (a restored backup): everybody is asked again"
