"""Which DP rank holds a room: bound by the prefill, asked by decodes in batches, one query at a time for an address.

Source of the wire: conn.py, `_register_prefill_dp_rank` and `query_prefill_dp_ranks`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

import msgspec

from controlplane.domain.rooms import MAX_DP, MAX_ROOM

from .errors import Overloaded, TimedOut, WorkerError
from .exchange import Answer, Ask
from .servers import JSON_BODY, ControlPlane, checked, decoded
from .wire import Wire

BATCH = 4096
MOST_WAITING = 100_000
QUERY_SECONDS = 5.0
FOUND = msgspec.json.Decoder(dict[str, int])
_DIGITS = re.compile(r"[0-9]{1,19}")


class Rooms:
    """Binds and finds rooms at one KV server (`control_plane` is whom to ask, as whom).

    Whoever waits for a room joins the next query: there is never more than one in flight, and never less than `interval`
    seconds between two.
    """

    def __init__(
        self, wire: Wire, control_plane: ControlPlane, *, interval: float = 0.05, turn: asyncio.Lock | None = None
    ) -> None:
        """`turn` is shared by all who ask at this address, about whichever instance."""
        self._wire, self._at = wire, control_plane
        self._interval = interval
        self._waiting: dict[int, list[asyncio.Future[int]]] = {}
        self._held = 0
        self._turn = turn if turn is not None else asyncio.Lock()
        self._asking: asyncio.Task[None] | None = None
        self._problem: WorkerError | None = None
        self.queries = 0

    async def bind(self, room: int, dp_rank: int, *, within: float = QUERY_SECONDS) -> None:
        """Tell that DP rank `dp_rank` (the effective one) holds `room`. Raises Refusal, Unreachable."""
        check_room(room)
        if not 0 <= dp_rank <= MAX_DP:
            raise WorkerError(f"dp_rank must be between 0 and {MAX_DP}, not {dp_rank}")
        body = msgspec.json.encode({"bootstrap_room": room, "dp_rank": dp_rank})
        await self._post("/register_dp_rank", body, within)

    async def look(self, rooms: Sequence[int], *, within: float = QUERY_SECONDS) -> dict[int, int]:
        """The DP rank of each room that is bound now, asked once. Unknown rooms are left out."""
        for room in rooms:
            check_room(room)
        found: dict[int, int] = {}
        try:
            async with asyncio.timeout(within), self._turn:
                for start in range(0, len(rooms), BATCH):
                    found |= await self._query(rooms[start : start + BATCH], within)
        except TimeoutError:
            raise TimedOut(str(self._at.kv), f"{len(rooms)} rooms were not answered within {within:g} s") from None
        return found

    async def find(self, rooms: Iterable[int], *, within: float) -> dict[int, int]:
        """The DP rank of every one of `rooms`, waited for until all are bound or `within` seconds are over: then those that
        were found. What is still missing is no longer asked for.

        Raises Unreachable when the server could not be asked at all meanwhile, Overloaded when too many wait.
        """
        wanted = list(dict.fromkeys(rooms))
        for room in wanted:
            check_room(room)
        if self._held + len(wanted) > MOST_WAITING:
            raise Overloaded(f"{MOST_WAITING} rooms are waited for at {self._at.kv} already")
        waits = {room: self._join(room) for room in wanted}
        try:
            if waits:
                await asyncio.wait(waits.values(), timeout=within)
            found = {room: wait.result() for room, wait in waits.items() if wait.done()}
            if not found and waits and self._problem is not None:
                raise self._problem
            return found
        finally:
            for room, wait in waits.items():
                self._leave(room, wait)

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def _join(self, room: int) -> asyncio.Future[int]:
        wait = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(room, []).append(wait)
        self._held += 1
        if self._asking is None or self._asking.done():
            self._problem = None
            self._asking = asyncio.create_task(self._ask_until_nobody_waits())
        return wait

    def _leave(self, room: int, wait: asyncio.Future[int]) -> None:
        self._held -= 1
        waits = self._waiting.get(room, [])
        if wait in waits:
            waits.remove(wait)
        if not waits:
            self._waiting.pop(room, None)

    async def _ask_until_nobody_waits(self) -> None:
        pause = self._interval
        while True:
            # Whoever came during the last query is asked for by this one.
            await asyncio.sleep(0)
            if not self._waiting:
                return
            try:
                async with self._turn:
                    await self._round()
                self._problem, pause = None, self._interval
            except WorkerError as problem:
                self._problem, pause = problem, min(max(pause * 2, 0.2), 2.0)
            await asyncio.sleep(pause)

    async def _round(self) -> None:
        rooms = list(self._waiting)
        for start in range(0, len(rooms), BATCH):
            for room, dp in (await self._query(rooms[start : start + BATCH], QUERY_SECONDS)).items():
                for wait in self._waiting.pop(room, []):
                    if not wait.done():
                        wait.set_result(dp)

    async def _query(self, rooms: Sequence[int], within: float) -> dict[int, int]:
        self.queries += 1
        answer = await self._post("/query_dp_ranks", msgspec.json.encode({"bootstrap_rooms": rooms}), within)
        asked = set(rooms)
        told: dict[str, int] = decoded(self._at.kv, answer, FOUND)
        # SGLang's server echoes room numbers as text; whatever else stands there was not asked for.
        pairs = ((int(room), dp) for room, dp in told.items() if _DIGITS.fullmatch(room))
        return {room: dp for room, dp in pairs if room in asked and 0 <= dp <= MAX_DP}

    async def _post(self, path: str, body: bytes, within: float) -> Answer:
        ask = Ask("POST", path, self._at.headers(**JSON_BODY), body)
        return checked(self._at.kv, await self._wire.ask(self._at.kv, ask, within=within))


def check_room(room: int) -> None:
    """Raises WorkerError for what no wire carries: rooms are integers from 0 to 2^63-1."""
    if isinstance(room, bool) or not isinstance(room, int) or not 0 <= room <= MAX_ROOM:
        raise WorkerError(f"a room is an integer from 0 to 2^63-1, not {str(room)[:40]}")
