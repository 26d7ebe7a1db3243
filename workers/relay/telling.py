"""What the relay tells the control plane: registrations that it missed, that ranks live, rooms; and what it is told back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec

from controlplane.domain.topology import Slot
from workers.sdk.errors import Garbled
from workers.sdk.keeping import BEAT, BeatAnswer
from workers.sdk.servers import decoded, refusal_in

from .holding import Seat
from .keeping import Keeping
from .link import State, generation
from .records import Record

log = logging.getLogger(__name__)

WINDOW = 16
ROOMS_AT_ONCE = 64


class Telling:
    """`lease` in seconds; `worker` is the name under which this relay beats. `changed()` is called when the control plane
    serves another launch than before."""

    def __init__(self, keeping: Keeping, *, worker: str, lease: float, changed: Callable[[], None]) -> None:
        self.keeping, self.link = keeping, keeping.link
        self.worker, self.lease, self._changed = worker, lease, changed
        self.draining = False
        # What operators want, as it was said with the last heartbeat that was answered, and when by the relay's clock.
        self.intent, self._heard_at = "", -1.0
        self.launch: int | None = None
        self.told_again = 0

    # What it missed.
    async def replay(self) -> bool:
        """In order, those of one launch beside each other. False: it is away again."""
        holding = self.keeping.holding
        waiting = holding.pending(self.keeping.alive)
        next_then, still = holding.next, {seat.put.n for seat in waiting}
        for _, run in groupby(waiting, key=_launch):
            seats = list(run)
            for start in range(0, len(seats), WINDOW):
                if holding.next != next_then:
                    # Somebody registered meanwhile, perhaps in the slot of one that waits: his is the last word.
                    next_then = holding.next
                    still = {seat.put.n for seat in holding.pending(self.keeping.alive)}
                window = [seat for seat in seats[start : start + WINDOW] if seat.put.n in still]
                settled = [taken for taken in await asyncio.gather(*map(self._tell, window)) if taken is not None]
                self.keeping.note(*settled)
                if len(settled) < len(window):
                    return False
        return True

    async def _tell(self, seat: Seat) -> Record | None:
        answer = await self.link.ask("PUT", "/route", seat.put.body.encode(), generation(seat.put.token), within=5.0)
        if answer is None:
            return None
        self.told_again += 1
        if answer.status == 200:
            return self.keeping.settled(seat)
        why = refusal_in(self.link.at.kv, answer).said
        if why != seat.refused:
            log.warning("the control plane refuses %s, which was acknowledged here: %s", seat.slot, why)
        return self.keeping.settled(seat, why)

    # That they live.
    async def beat(self) -> None:
        """For the newest launch under this relay's own name, for others that live beside it under one made of it."""
        if self.link.state is State.AWAY:
            return
        by_token: dict[str | None, list[Slot]] = {}
        for held in self.keeping.holding.launches:
            slots = [slot for slot, seat in held.seats.items() if self.keeping.alive(seat) is not False]
            if slots:
                by_token.setdefault(held.launch.token, []).extend(slots)
        newest = next(reversed(by_token), None)
        await self._beat_for(self.worker, newest, by_token.pop(newest, []))
        for token, slots in by_token.items():
            await self._beat_for(f"{self.worker}/{token[:8] if token else 'older'}", token, slots)

    async def _beat_for(self, worker: str, token: str | None, slots: Sequence[Slot]) -> None:
        body = {
            "worker": worker[:128],
            "slots": [list(slot) for slot in sorted(set(slots))],
            "generation": token,
            "lease_seconds": self.lease,
        }
        answer = await self.link.ask("POST", "/pd/v1/heartbeats", msgspec.json.encode(body))
        if answer is None or answer.status != 200:
            return
        try:
            self._obey(decoded(self.link.at.kv, answer, BEAT), token)
        except Garbled as problem:
            self.link.went_away(problem.sentence)

    def _obey(self, said: BeatAnswer, token: str | None) -> None:
        if said.launch != self.launch:
            self.launch = said.launch
            self._changed()
        wanted = {Slot(*slot) for told in said.directives if told.do == "register" for slot in told.slots}
        again = [s for s in self.keeping.holding.last_words() if s.put.token == token and s.slot in wanted]
        for seat in again:
            seat.put.pending = True
        if any(not seat.refused for seat in again):
            # Those that were refused before have time until the next look.
            self.link.stirred.set()
        draining = said.drains
        # An older control plane says no more than that.
        self.intent, self._heard_at = said.intent or ("draining" if draining else ""), self.keeping.clock()
        if draining != self.draining:
            self.draining = draining
            log.info("the control plane %s this instance", "drains" if draining else "no longer drains")

    @property
    def heard_seconds_ago(self) -> float | None:
        """How long ago the control plane answered a heartbeat; None: not since this relay runs."""
        return None if self._heard_at < 0 else round(max(0.0, self.keeping.clock() - self._heard_at), 3)

    # Rooms.
    async def forward_rooms(self) -> None:
        """Oldest first, many at once, behind the registrations that it missed."""
        while self.link.state is not State.AWAY and self.keeping.rooms.pending:
            if self.link.state is State.CATCHING_UP and self.keeping.holding.pending(self.keeping.alive):
                return
            rooms = self.keeping.rooms.next_pending(ROOMS_AT_ONCE, self.keeping.clock())
            if not rooms:
                return
            bodies = (msgspec.json.encode({"bootstrap_room": room.room, "dp_rank": room.dp}) for room in rooms)
            answers = await asyncio.gather(*(self.link.ask("POST", "/register_dp_rank", body) for body in bodies))
            if any(answer is None for answer in answers):
                return
            self.keeping.note(self.keeping.rooms.took(rooms[-1].n))


def _launch(seat: Seat) -> tuple[object, ...]:
    return seat.put.token, seat.said.topology, seat.said.facts.page_size
