"""The client for asyncio: everything a worker needs of its control plane, or of a plain SGLang bootstrap server."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

from .engine_info import EngineInfo
from .errors import Closed, NotBound
from .identity import launch_token, worker_name
from .keeper import Keeper, OnChange, check_advertised
from .minting import Mint
from .places import Place
from .ranks import Rank
from .reports import Reports
from .resolved import Question, Resolved
from .resolver import ASK_SECONDS, Resolver
from .rooms import QUERY_SECONDS, Rooms
from .servers import ControlPlane
from .watching import Watcher
from .wire import Wire

log = logging.getLogger(__name__)

MOST_ROOM_PLACES = 1024
LAST_WORD_SECONDS = 2.0


class AsyncClient:
    """Made inside the loop that uses it, and closed there (`async with`).

    With an API in `control_plane` it hears of changes by long polls, so that answers are kept for as long as they hold, and
    sends reports; `watch` turns the listening off. `resolver`, `rooms`, `engine_info` and `reports` are its parts.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        token: str | None = None,
        worker: str | None = None,
        watch: bool = True,
        watch_instance: str | None = None,
        max_age: float = 5.0,
    ) -> None:
        """`token` is the token of this launch (`launch_token()`), `worker` the name of this process."""
        self.control_plane = control_plane
        self.token = token if token is not None else launch_token()
        self.worker = worker if worker is not None else worker_name()
        self.mint = Mint()
        self._wire = Wire()
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept: dict[Keeper, asyncio.Task[None]] = {}
        self._closed = False
        self._loop = asyncio.get_running_loop()
        api = control_plane.api
        self.watcher = Watcher(self._wire, control_plane, api, instance=watch_instance) if api and watch else None
        self.resolver = Resolver(self._wire, control_plane, watcher=self.watcher, max_age=max_age)
        self.engine_info = EngineInfo(self._wire, control_plane)
        self.reports = Reports(self._wire, control_plane, api, source=self.worker) if api else None
        self._rooms: OrderedDict[Place, Rooms] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.rooms = Rooms(self._wire, control_plane, turn=self._turn_at(control_plane.kv))
        for part in (self.watcher, self.reports):
            if part is not None:
                self._start(part.run(), type(part).__name__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self, *, within: float = LAST_WORD_SECONDS) -> None:
        """Stop what runs, send the last reports (`within` so many seconds), close every connection. Twice is once."""
        if self._closed:
            return
        self._closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within)
        if self.reports is not None:
            try:
                async with asyncio.timeout(within):
                    await self.reports.flush_all()
            except TimeoutError:
                log.warning("the last reports were not taken within %g s", within)
            if self.reports.waiting:
                log.warning(
                    "%d things that were to be reported of rooms are lost with this client", self.reports.waiting
                )
        for rooms in (self.rooms, *self._rooms.values()):
            rooms.close()
        self.resolver.close()
        await self._wire.aclose()

    # A prefill's side.
    async def register(
        self,
        ranks: Sequence[Rank],
        *,
        lease_seconds: float = 15.0,
        on_change: OnChange | None = None,
        token: str | None = None,
        worker: str | None = None,
    ) -> Keeper:
        """Keep these ranks registered from now on, in the background, until the client is closed. Comes back at once:
        `await keeper.registered(within=…)` waits, `keeper.standing` tells, `release(keeper)` ends it.

        `token` and `worker` are the client's own unless given; whoever registers more than once gives each its own worker.

        Raises NotAdvertisable when a rank would tell its loopback address to another host.
        """
        self._check()
        await asyncio.to_thread(check_advertised, self.control_plane, ranks)
        keeper = Keeper(
            self._wire,
            self.control_plane,
            ranks,
            token=self.token if token is None else token,
            worker=self.worker if worker is None else worker,
            lease_seconds=lease_seconds,
            on_change=on_change,
        )
        self._kept[keeper] = self._start(keeper.run(), "Keeper")
        return keeper

    async def release(self, keeper: Keeper) -> None:
        """Keep these ranks no longer: no heartbeats, no registration. What stands in the directory is left to its probes."""
        work = self._kept.pop(keeper, None)
        if work is not None:
            work.cancel()

    async def bind(self, room: int, rank: Rank | int, *, within: float = QUERY_SECONDS) -> None:
        """Tell that a rank (or a DP rank, the effective one) holds a room."""
        self._check()
        await self.rooms.bind(room, rank if isinstance(rank, int) else rank.dp_rank, within=within)

    # A decode's side.
    async def resolve(
        self,
        question: Question,
        *,
        place: Place | None = None,
        instance: str | None = None,
        within: float = ASK_SECONDS,
    ) -> Resolved:
        """See `Resolver.resolve`."""
        self._check()
        return await self.resolver.resolve(question, place=place, instance=instance, within=within)

    async def until_ready(
        self, question: Question, *, place: Place | None = None, instance: str | None = None, within: float
    ) -> Resolved:
        """See `Resolver.until_ready`."""
        self._check()
        return await self.resolver.until_ready(question, place=place, instance=instance, within=within)

    def invalidate(self, failed: Resolved) -> bool:
        """See `Resolver.invalidate`."""
        return self.resolver.invalidate(failed)

    async def find_rooms(
        self,
        rooms: Iterable[int],
        *,
        place: Place | None = None,
        instance: str | None = None,
        within: float = QUERY_SECONDS,
    ) -> dict[int, int]:
        """The DP ranks of rooms that prefills bind, waited for. See `Rooms.find`."""
        self._check()
        return await self._rooms_at(place, instance).find(rooms, within=within)

    async def dp_of(
        self, room: int, prefill: Resolved, *, recorded_first: bool = False, within: float = QUERY_SECONDS
    ) -> int:
        """The DP rank of that prefill which holds a room. Asked for only when arithmetic cannot tell; with `recorded_first` a
        rank that somebody recorded wins over arithmetic, which may override a pinned one.

        Raises NotBound when nobody bound it in time.
        """
        self._check()
        rooms = self._rooms_at(prefill.place, prefill.instance)
        computed = prefill.dp_of(room)
        if computed is not None:
            recorded = await rooms.look([room], within=within) if recorded_first and prefill.topology.dp > 1 else {}
            return recorded.get(room, computed)
        found = await rooms.find([room], within=within)
        if room not in found:
            raise NotBound(f"no rank of {prefill.instance or prefill.place} bound room {room} within {within:g} s")
        return found[room]

    def _rooms_at(self, place: Place | None, instance: str | None) -> Rooms:
        own = self.control_plane
        asked = place if place is not None else own.kv
        at = own.asked_about(asked)
        name = instance if instance is not None else at.instance
        if own.serves(asked) and name in (own.instance, None):
            return self.rooms
        key = Place(asked.host, asked.port, asked.scheme, asked.prefix, name)
        rooms = self._rooms.get(key)
        if rooms is None:
            whom = ControlPlane(at.kv, at.engine, None, name, at.token)
            rooms = self._rooms[key] = Rooms(self._wire, whom, turn=self._turn_at(at.kv))
            if len(self._rooms) > MOST_ROOM_PLACES:
                _, oldest = self._rooms.popitem(last=False)
                oldest.close()
        self._rooms.move_to_end(key)
        return rooms

    def _turn_at(self, place: Place) -> asyncio.Lock:
        turn = self._turns.get(str(place))
        if turn is None:
            turn = self._turns[str(place)] = asyncio.Lock()
        return turn

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"pd-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("%s ended by a bug of the SDK", task.get_name(), exc_info=problem)

    def _check(self) -> None:
        if self._closed:
            raise Closed("this client was closed; make another one")
        if asyncio.get_running_loop() is not self._loop:
            raise Closed("this client belongs to another event loop; make one inside the loop that uses it")
