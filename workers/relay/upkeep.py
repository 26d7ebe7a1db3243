"""What the relay does by itself: sees whether the control plane is there, has it told what it missed, and keeps a whole copy of
what it serves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from controlplane.domain.errors import Refused
from controlplane.protocol import kv
from controlplane.protocol.observed import TOPOLOGY_QUERY
from workers.sdk.errors import Garbled
from workers.sdk.exchange import Answer
from workers.sdk.servers import decoded

from .copying import TooManyRanks, Whole, read_whole
from .holding import identity_of
from .keeping import Keeping
from .link import State
from .telling import Telling

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
TOPOLOGY_SECONDS = 5.0
WHOLE_SECONDS = 60.0
HANDOVER_SECONDS = 75.0
"""For so long the control plane may take to serve what is served here, before its word counts all the same: its flush lasts
60 s at most. Until then nobody who was served from here is sent elsewhere."""

STIRRED_SECONDS = 0.05
MOST_ASKED = 4096
ASKED_SECONDS = 0.25
FOUND = msgspec.json.Decoder(dict[str, int])


class Upkeep:
    """`run()` is a task and never ends. `lease` in seconds; `worker` is the name under which this relay beats."""

    def __init__(
        self, keeping: Keeping, *, worker: str, lease: float = 15.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.keeping, self.link = keeping, keeping.link
        self.telling = Telling(keeping, worker=worker, lease=lease, changed=self._changed)
        self._clock = clock
        self.retired = False
        self.uncopied = ""
        """Why no copy is kept of what the control plane serves, a sentence; empty: one is."""

        self._stale = True
        self._topology_at = self._whole_at = -1e9
        self._drained_at: float | None = None
        self._to_beat = asyncio.Event()
        self._rooms = asyncio.Event()
        self._asked: dict[int, None] = {}

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as all_of_it:
            all_of_it.create_task(self._for_ever(self.look, LOOK_SECONDS, self.link.stirred))
            all_of_it.create_task(self._for_ever(self.telling.beat, self.telling.lease / 3, self._to_beat))
            all_of_it.create_task(self._for_ever(self.telling.forward_rooms, LOOK_SECONDS, self._rooms))
            all_of_it.create_task(self._for_ever(self.tell_who_asked, ASKED_SECONDS, asyncio.Event()))

    # What the door tells.
    def registered(self) -> None:
        self._stale = True
        self.link.stirred.set()
        self._to_beat.set()

    def bound(self) -> None:
        self._rooms.set()

    def asked(self, rooms: Iterable[int]) -> None:
        """Rooms that were answered from here: the control plane shall know that they were asked for."""
        for room in rooms:
            if len(self._asked) < MOST_ASKED:
                self._asked[room] = None

    def heard(self, query: bytes, answer: Answer) -> None:
        """The control plane's own answer to a look-up that came through here."""
        if answer.status == 200 and kv.asks_for_topology(query):
            told = self.keeping.holding.told_text
            if told is None or told.encode() != answer.body:
                self._stale = True
                self.link.stirred.set()

    async def look_up(self, rooms: Sequence[int]) -> dict[int, int]:
        """Rooms that were bound elsewhere, by the control plane's word."""
        answer = await self.link.ask("POST", "/query_dp_ranks", msgspec.json.encode({"bootstrap_rooms": rooms}))
        if answer is None or answer.status != 200:
            return {}
        try:
            return {int(room): dp for room, dp in decoded(self.link.at.kv, answer, FOUND).items() if room.isdigit()}
        except Garbled as problem:
            self.link.went_away(problem.sentence)
            return {}

    # Whether it is there.
    async def look(self) -> None:
        answer = await self.link.look()
        keeping = self.keeping
        if answer is None:
            self._drained_at = None
            keeping.refresh(forced=False)
        else:
            self.retired = answer.status == 404 and answer.body.endswith(b"is retired")
            self.link.came_back()
            if self.link.state is State.CATCHING_UP:
                await self._catch_up()
            if self.link.together:
                await self._follow(forced=answer.status == 503)
        keeping.look()

    async def _catch_up(self) -> None:
        """Tell what it missed; its word counts once it serves what is served here."""
        # It answers; whether it takes what this relay says is seen by saying something.
        await self.telling.beat()
        if self.link.state is State.AWAY or not await self.telling.replay():
            return
        now = self._clock()
        self._drained_at = now if self._drained_at is None else self._drained_at
        served_here = self.keeping.view
        whole = await self._copy()
        if self.link.state is not State.CATCHING_UP:
            return
        served_there = whole.launch if whole is not None else None
        same = identity_of(served_here) == identity_of(served_there)
        late = now - self._drained_at > HANDOVER_SECONDS
        if served_here is None or same or late or self.retired:
            if late and not same:
                log.warning("the control plane serves something else than this relay does; its word counts")
            self.link.caught_up()
            self._drained_at = None
            if whole is not None:
                self.keeping.told(whole.record)
                self._read()
            self._rooms.set()
            self._to_beat.set()

    async def _follow(self, *, forced: bool) -> None:
        """Keep the copy whole. After a flush of the control plane's it is read anew before anybody is answered 200 again."""
        now = self._clock()
        if any(seat.put.pending for seat in self.keeping.holding.seats()):
            await self.telling.replay()
        was = self.keeping.forced
        due = now - self._topology_at > TOPOLOGY_SECONDS or now - self._whole_at > WHOLE_SECONDS
        if not forced and (was or self._stale or due):
            if not (was or self._stale or now - self._whole_at > WHOLE_SECONDS) and await self._is_as_before():
                self._topology_at = now
            else:
                whole = await self._copy()
                if self.uncopied:
                    self._read()
                elif whole is None and was:
                    # Not readable yet: as if it were 503 still.
                    forced = self.link.together
                elif whole is not None:
                    self._read()
                    if self.keeping.holding.differs(whole.record):
                        self.keeping.told(whole.record)
        self.keeping.refresh(forced=forced)

    async def _copy(self) -> Whole | None:
        """What it serves, to be kept; None where nothing can be, and `uncopied` says so where it is too large."""
        before, self.uncopied = self.uncopied, ""
        try:
            return await read_whole(self.link, self.keeping.clock)
        except TooManyRanks as problem:
            self.uncopied = str(problem)
            if self.uncopied != before:
                log.warning("%s: while the control plane is away, nobody is answered from here", problem)
            self.keeping.uncopy(problem.topology)
            return None

    async def _is_as_before(self) -> bool:
        answer = await self.link.ask("GET", TOPOLOGY_QUERY)
        told = self.keeping.holding.told_text
        return answer is None or (answer.status == 200 and told is not None and told.encode() == answer.body)

    def _changed(self) -> None:
        self._stale = True

    def _read(self) -> None:
        self._stale = False
        self._topology_at = self._whole_at = self._clock()

    # Who asked.
    async def tell_who_asked(self) -> None:
        if self._asked and self.link.together:
            rooms, self._asked = list(self._asked), {}
            await self.look_up(rooms)

    async def _for_ever(self, do: Callable[[], Awaitable[None]], seconds: float, sooner: asyncio.Event) -> None:
        while True:
            sooner.clear()
            try:
                await do()
            except Refused as problem:
                self.link.went_away(problem.sentence)
            except Exception:
                log.exception("the relay's upkeep failed; it goes on")
                await asyncio.sleep(seconds)
            try:
                async with asyncio.timeout(seconds):
                    await sooner.wait()
            except TimeoutError:
                continue
            # Those that come together are done together, and nobody stirs without end.
            await asyncio.sleep(STIRRED_SECONDS if sooner is self.link.stirred else 0)
