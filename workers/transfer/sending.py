"""One room at a prefill rank, as values: which decode ranks asked, how far the sending is, what the decode may be told.

Source: `start_prefill_thread`, `transfer_worker` and `_handle_deferred_abort_notification` in
sglang/srt/disaggregation/mooncake/conn.py (0.5.23).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workers.messaging.endpoint import Endpoint
from workers.messaging.replies import AbortAck, Poll
from workers.messaging.requests import Abort, KvRequest

REMEMBERED_SECONDS = 5.0
"""For so long a decode that asks for a room that failed here is told at once."""
LATE_SECONDS = 300.0
"""And for so long in the end: it was queued for memory while the prefill gave up, and would wait for its own time-out."""
PATIENCE_SECONDS = 5.0
"""How long a late one waits first: a room whose number is used again is opened here by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """`opened`: this rank has the request too; before that the room was only asked for. `asked`: by session of the decode
    rank. `sent`: pages that were handed to the engine. `running`: batches under way. `poisoned`: a batch ended without proof
    that nothing of it writes any more, so no abort of this room is ever acknowledged. `late`: why the room failed here before it
    was asked for; who asked is told so at the deadline, unless it is opened again."""

    room: int
    deadline: float
    opened: bool = False
    closed: bool = False
    asked: dict[str, KvRequest] = field(default_factory=dict)
    poll: Poll = Poll.BOOTSTRAPPING
    sent: int = 0
    running: int = 0
    poisoned: bool = False
    reason: str = ""
    late: str = ""
    waiting: dict[Endpoint, Abort] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return self.poll in (Poll.SUCCESS, Poll.FAILED)

    @property
    def targets(self) -> tuple[KvRequest, ...]:
        """The decode ranks that want bytes."""
        return tuple(request for request in self.asked.values() if not request.is_dummy)


@dataclass(frozen=True, slots=True)
class Ended:
    """A room that was closed here at the moment `at`. `poisoned`: it was never proven that its writes have ended, so no abort
    of it is ever acknowledged. `reason`: why it failed, for a decode rank that had not asked yet. One that had asked was told:
    when it asks again it means another request."""

    poisoned: bool
    reason: str
    told: frozenset[str]
    at: float

    def patience(self, request: KvRequest, *, now: float) -> float | None:
        """Seconds after which who asks is told that the room failed, unless it is opened again; None: it is another request.

        >>> late = KvRequest(room=7, endpoint=Endpoint("10.0.0.1", 5), session="d:1", required_dst_info_num=1)
        >>> room = Ended(False, "out of memory", frozenset(), at=100.0)
        >>> room.patience(late, now=101.0), room.patience(late, now=160.0), room.patience(late, now=500.0)
        (0.0, 5.0, None)
        """
        since = now - self.at
        if not self.reason or request.session in self.told or since >= LATE_SECONDS:
            return None
        return 0.0 if since < REMEMBERED_SECONDS else PATIENCE_SECONDS

    def tell(self, session: str) -> Ended:
        """It is told that the room is over: what it asks next is another request."""
        return replace(self, told=self.told | {session})


def ended(state: Sending, before: Ended | None, *, now: float) -> Ended:
    poisoned = state.poisoned or (before is not None and before.poisoned)
    return Ended(poisoned, state.reason, frozenset(state.asked), now)


def ask(state: Sending, request: KvRequest) -> Sending:
    """A decode rank asked; when as many as it says have, the prefill may send. A second request of a session replaces it."""
    if state.is_over:
        return state
    asked = {**state.asked, request.session: request}
    ready = len(asked) >= request.required_dst_info_num
    poll = Poll.WAITING_FOR_INPUT if ready and state.poll is Poll.BOOTSTRAPPING else state.poll
    return replace(state, asked=asked, poll=poll)


def is_of_another_attempt(state: Sending, message: Abort) -> bool:
    """Whether the abort is late word of an earlier use of the room. SGLang says nothing of attempts and is taken at its word."""
    known = {request.attempt for request in state.asked.values() if request.endpoint == message.endpoint}
    return bool(message.attempt and known and message.attempt not in known)


def open_room(state: Sending, *, deadline: float) -> Sending:
    return replace(state, opened=True, deadline=deadline)


def begin(state: Sending, pages: int) -> Sending:
    """A batch of pages goes to the engine."""
    return replace(state, running=state.running + 1, sent=state.sent + pages, poll=max(state.poll, Poll.TRANSFERRING))


def end(state: Sending, *, settled: bool = True) -> Sending:
    return replace(state, running=state.running - 1, poisoned=state.poisoned or not settled)


def succeed(state: Sending) -> Sending:
    return state if state.is_over else replace(state, poll=Poll.SUCCESS)


def fail(state: Sending, reason: str) -> Sending:
    """FAILED is final, and the first reason stays."""
    return state if state.is_over else replace(state, poll=Poll.FAILED, reason=reason)


def expire(state: Sending, *, now: float) -> Sending:
    """A room whose decode never asked, or whose pages never came, ends at its deadline."""
    if state.is_over or now < state.deadline or state.running:
        return state
    if state.poll is Poll.BOOTSTRAPPING:
        least = max((request.required_dst_info_num for request in state.asked.values()), default=1)
        return fail(state, f"{len(state.asked)} of {least} decode ranks asked for room {state.room} in time")
    return fail(state, f"room {state.room} was asked for, but its last pages were not handed over in time")


def abort(state: Sending, message: Abort) -> Sending:
    """The decode gave the room up. It is told when nothing of the room is under way, if it wants to know."""
    state = fail(state, "the decode rank gave the room up")
    if message.endpoint is None or message.generation is None:
        return state
    return replace(state, waiting={**state.waiting, message.endpoint: message})


def acks(state: Sending, rank: int) -> tuple[Sending, list[tuple[Endpoint, AbortAck]]]:
    """-> the room after it, and what may be said now.

    >>> asked = Abort(room=7, endpoint=Endpoint("10.0.0.1", 5), generation=3)
    >>> busy = abort(begin(Sending(room=7, deadline=9.0), 2), asked)
    >>> acks(busy, 0)[1]
    []
    >>> [(str(to), ack.generation) for to, ack in acks(end(busy), 0)[1]]
    [('10.0.0.1:5', 3)]
    >>> acks(end(busy, settled=False), 0)[1]
    []
    """
    if state.running or state.poisoned or not state.waiting:
        return state, []
    told = [
        (to, AbortAck(room=state.room, prefill_rank=rank, generation=message.generation))
        for to, message in state.waiting.items()
    ]
    return replace(state, waiting={}), told
