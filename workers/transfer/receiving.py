"""One room at a decode rank, as values: who has answered, whether the metadata is of this room, whether anybody may still write.

Source: `apply_prefill_status`, `is_abort_release_safe` and `note_abort_ack` in sglang/srt/disaggregation/common/conn.py (0.5.23).
There a release time-out frees the pages of a prefill that never acknowledges; here they stay in quarantine until the engine
that serves the writes is reset, for time proves nothing about a process that was stopped.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from workers.messaging.packing import Ints
from workers.messaging.replies import AbortAck, Poll, Status
from workers.transfer.metadata import RoomCheck


class Failure(enum.StrEnum):
    """Why a room failed, for machines; the sentence beside it is for people."""

    UNREACHABLE = "unreachable"
    PREFILL_FAILED = "prefill_failed"
    LOST = "lost"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    OTHER_ROOM = "other_room"
    DAMAGED = "damaged"
    ENGINE_RESET = "engine_reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiving:
    """`writers`: the prefill ranks that send for real, by the number that they sign with. Only their word counts: one that was
    asked as a dummy has nothing under way, and acknowledges an abort while the others still write. `answers_needed`: how many
    of them must answer (`required_prefill_response_num`). `deadline`: a moment of the caller's monotonic clock. `published`: a
    prefill may know the pages, so it may write into them."""

    room: int
    attempt: str
    writers: frozenset[int]
    answers_needed: int
    deadline: float
    poll: Poll = Poll.BOOTSTRAPPING
    published: bool = False
    answered: dict[int, Ints] = field(default_factory=dict)
    acknowledged: frozenset[int] = frozenset()
    generation: int | None = None
    failure: Failure | None = None
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.poll in (Poll.SUCCESS, Poll.FAILED)

    @property
    def has_all_answers(self) -> bool:
        return len(self.answered) >= self.answers_needed

    @property
    def is_settled(self) -> bool:
        """Whether no prefill rank writes into the pages any more: each has finished, or acknowledged that it gave up, or was
        never told of them."""
        return not self.published or self.writers <= self.answered.keys() | self.acknowledged


def publish(state: Receiving) -> Receiving:
    """From here on prefill ranks may know the pages."""
    return replace(state, published=True, poll=state.poll if state.is_over else Poll.WAITING_FOR_INPUT)


def untold(state: Receiving, ranks: Iterable[int]) -> Receiving:
    """These never learned of the pages, and never will: whatever else failed, they write nothing."""
    return replace(state, acknowledged=state.acknowledged | frozenset(ranks))


def hear(state: Receiving, status: Status) -> Receiving:
    """A prefill rank finished, or failed. Word of another attempt, success of a rank that owes nothing, and what is no end,
    change nothing."""
    if status.attempt and status.attempt != state.attempt:
        return state
    if status.poll is Poll.SUCCESS and status.prefill_rank in state.writers:
        # Also after a failure of another rank: this one writes no more, which the quarantine wants to know.
        answered = {**state.answered, status.prefill_rank: status.checksums}
        poll = state.poll if state.is_over else Poll.TRANSFERRING
        return replace(state, answered=answered, poll=poll)
    if status.poll is Poll.FAILED and not state.is_over:
        why = status.reason or "it gave no reason; it may be dead"
        return fail(state, Failure.PREFILL_FAILED, f"prefill rank {status.prefill_rank} failed: {why}")
    return state


def conclude(state: Receiving, found: RoomCheck, *, shown: int, damaged: str = "") -> Receiving:
    """Once all have answered: the room in the metadata, which shows `shown`, decides, then the checksums.

    Room 0 can only be refuted: what SGLang writes for it is what "not written" looks like.
    """
    if state.is_over or not state.has_all_answers:
        return state
    if found is RoomCheck.OTHER:
        return fail(
            state, Failure.OTHER_ROOM, f"the metadata is of room {shown}, not of {state.room}; nothing was consumed"
        )
    if found is RoomCheck.NOT_WRITTEN and state.room != 0:
        return state
    if damaged:
        return fail(state, Failure.DAMAGED, f"{damaged}; nothing was consumed")
    return replace(state, poll=Poll.SUCCESS)


def expire(state: Receiving, *, now: float) -> Receiving:
    """
    >>> ranks = frozenset({0, 1})
    >>> late = expire(Receiving(room=7, attempt="a", writers=ranks, answers_needed=2, deadline=10.0), now=10.5)
    >>> late.failure, late.reason
    (<Failure.TIMED_OUT: 'timed_out'>, '0 of 2 prefill ranks answered in time')
    """
    if state.is_over or now < state.deadline:
        return state
    if state.has_all_answers:
        return fail(
            state, Failure.TIMED_OUT, "all prefill ranks answered, but the room in the metadata was never written"
        )
    return fail(
        state, Failure.TIMED_OUT, f"{len(state.answered)} of {state.answers_needed} prefill ranks answered in time"
    )


def fail(state: Receiving, failure: Failure, reason: str) -> Receiving:
    """The first cause stays; a room that ended stays as it ended."""
    return state if state.is_over else replace(state, poll=Poll.FAILED, failure=failure, reason=reason)


def give_up(state: Receiving, generation: int) -> Receiving:
    """The prefill ranks were told to stop, and are asked to acknowledge this generation."""
    return replace(state, generation=generation)


def acknowledge(state: Receiving, ack: AbortAck) -> Receiving:
    """An acknowledgement without a generation, or of an earlier one, may be about another use of the room.

    Source: `note_abort_ack`, which counts ranks that were asked as dummies too, and so frees pages that are still written into.
    """
    if state.generation is None or ack.generation != state.generation:
        return state
    return replace(state, acknowledged=state.acknowledged | {ack.prefill_rank})
