"""One room at a decode rank, for the one who waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.messaging.endpoint import Endpoint
from workers.messaging.replies import Poll
from workers.messaging.requests import Abort, KvRequest
from workers.transfer import receiving
from workers.transfer.courier import Letter
from workers.transfer.errors import TransferError
from workers.transfer.layout import Place
from workers.transfer.metadata import Number, RoomCheck, check_room
from workers.transfer.receiving import Failure, Receiving

if TYPE_CHECKING:
    from workers.transfer.decode import DecodeSide


@dataclass(frozen=True, slots=True)
class Source:
    """A prefill rank to ask: where it listens and which part it keeps. A dummy sends nothing (MLA with a larger prefill TP)."""

    endpoint: Endpoint
    place: Place
    is_dummy: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a room ended. `settled`: its pages and its slot are free again; otherwise they wait in quarantine."""

    room: int
    poll: Poll
    failure: Failure | None
    reason: str
    settled: bool


class Receiver:
    """One room on its way. `poll` or `wait`, then `metadata` if it succeeded, then `close`, always."""

    def __init__(
        self,
        side: DecodeSide,
        state: Receiving,
        sources: tuple[Source, ...],
        pages: tuple[int, ...],
        slot: int,
        replaced: Callable[[], str] | None = None,
    ) -> None:
        self._side, self.state = side, state
        self.sources, self.pages, self.slot = sources, pages, slot
        self.lines: dict[Endpoint, int] = {}
        """The connections on which its sources were asked."""
        self.replaced = replaced
        self.is_cut_off = False
        self._outcome: Outcome | None = None

    @property
    def awaited(self) -> list[Source]:
        """Those that have not answered yet, and must."""
        state = self.state
        if state.is_over or state.has_all_answers:
            return []
        return [one for one in self.sources if not one.is_dummy and one.place.unique_rank not in state.answered]

    def rank_at(self, to: Endpoint) -> int | None:
        """The prefill rank there that it still waits for."""
        return next((one.place.unique_rank for one in self.awaited if one.endpoint == to), None)

    def change(self, how: Callable[[Receiving], Receiving]) -> None:
        with self._side.changed:
            before, self.state = self.state, how(self.state)
            # Whoever waits looks, and would wake all the others if looking were a change.
            if self.state is not before:
                self._side.changed.notify_all()

    def not_told(self, endpoints: Set[Endpoint]) -> None:
        """Nothing that was said of this room reached these, so they need no abort either."""
        left_out = [one for one in self.sources if one.endpoint in endpoints]
        self.sources = tuple(one for one in self.sources if one not in left_out)
        self.change(lambda state: receiving.untold(state, [one.place.unique_rank for one in left_out]))

    def request(self, source: Source, required_dst_info_num: int, prefix: int) -> KvRequest:
        return KvRequest(
            room=self.state.room,
            endpoint=self._side.endpoint,
            session=self._side.engine.session,
            required_dst_info_num=required_dst_info_num,
            pages=() if source.is_dummy else self.pages,
            aux_index=self.slot,
            is_dummy=source.is_dummy,
            decode_prefix_len=prefix,
            attempt=self.state.attempt,
        )

    def poll(self) -> Poll:
        """How far it is. SUCCESS is said only when the room in the metadata agrees, and the checksums if any were sent."""
        state = self.state
        if not state.is_over and state.has_all_answers:
            shown = self._side.metadata.room(self.slot)
            found = check_room(shown, state.room)
            damaged = "" if found is RoomCheck.OTHER else self._side.damage(self)
            self.change(lambda state: receiving.conclude(state, found, shown=shown, damaged=damaged))
        self.change(lambda state: receiving.expire(state, now=time.monotonic()))
        return self.state.poll

    def wait(self, timeout: float) -> Poll:
        """Until it is over, or for `timeout` seconds."""
        end = time.monotonic() + timeout
        while (poll := self.poll()) not in (Poll.SUCCESS, Poll.FAILED):
            left = min(end, self.state.deadline) - time.monotonic()
            if time.monotonic() >= end:
                break
            with self._side.changed:
                if not self.state.is_over and not self.state.has_all_answers:
                    self._side.changed.wait(min(max(left, 0.001), 0.2))
                elif not self.state.is_over:
                    # All have answered; the room is on its way into the slot.
                    self._side.changed.wait(0.005)
        return poll

    def metadata(self) -> dict[str, tuple[Number, ...]]:
        """What came beside the KV. Raises TransferError unless the room succeeded: nothing unproven is ever handed out."""
        if self.poll() is not Poll.SUCCESS:
            raise TransferError(
                f"room {self.state.room} is not proven: {self.state.reason or 'its KV has not arrived'}"
            )
        return self._side.metadata.read(self.slot)

    def abort(self, reason: str = "the request was aborted") -> None:
        """Tell the prefill ranks to stop. Its pages stay out of use until they have acknowledged, or the engine is reset."""
        with self._side.changed:
            self.change(lambda state: receiving.fail(state, Failure.ABORTED, reason))
            if self.state.generation is not None or self.is_cut_off:
                return
            generation = self._side.next_generation()
            self.change(lambda state: receiving.give_up(state, generation))
        state = self.state
        message = Abort(room=state.room, endpoint=self._side.endpoint, generation=generation, attempt=state.attempt)
        self._side.send([Letter(source.endpoint, message.frames()) for source in self.sources])

    def close(self) -> Outcome:
        """Give pages and slot back, through the quarantine if need be. A second call says the same."""
        if self._outcome is None:
            self.poll()
            if self.state.poll is not Poll.SUCCESS and not self.state.is_settled:
                self.abort()
            settled = self._side.let_go(self)
            state = self.state
            self._outcome = Outcome(state.room, state.poll, state.failure, state.reason, settled)
        return self._outcome
