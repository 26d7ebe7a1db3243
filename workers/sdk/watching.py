"""Which instances changed, as the ledger tells it by long polls: what makes a cached answer stale without asking for it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlencode

import msgspec

from .backoff import Backoff
from .errors import NotAllowed, NotFound, Refusal, WorkerError
from .exchange import Ask
from .places import Place
from .servers import ControlPlane, checked, decoded
from .wire import Wire

log = logging.getLogger(__name__)

PATH = "/api/v1/events"
# What changes who is asked and where: not how a drain goes on or what routers do.
KINDS = "launch,rank,instance,intent"
WAIT_SECONDS = 20.0
SLACK_SECONDS = 10.0
HOPELESS_SECONDS = 60.0
MOST_REMEMBERED = 10_000
AT_A_TIME = 500


class EventBody(msgspec.Struct):
    revision: int | str = 0
    instance: str | None = None


class EventsBody(msgspec.Struct):
    ledger: str
    revision: int | str
    items: list[EventBody]
    next: str | None = None


EVENTS = msgspec.json.Decoder(EventsBody)


class Watcher:
    """Follows the ledger. `run()` is a task of its own; while it is not `current`, nothing it knows vouches for anything."""

    def __init__(
        self,
        wire: Wire,
        control_plane: ControlPlane,
        api: Place,
        *,
        instance: str | None = None,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`instance`: follow this one alone (a token that is bound to it may not see others)."""
        self._wire, self._at, self._api = wire, control_plane, api
        self._instance, self._wait, self._clock = instance, wait_seconds, clock
        self._heard_at = -1e9
        self._cursor: str | None = None
        self._changed: OrderedDict[str, int] = OrderedDict()
        self._floor = 0
        self._looks = 0
        self.trouble = ""

    @property
    def current(self) -> bool:
        """Whether it hears of changes: the last long poll ended no longer ago than one may take."""
        return self._cursor is not None and self._clock() - self._heard_at < self._wait + SLACK_SECONDS

    @property
    def mark(self) -> int | None:
        """To be taken before an answer is asked for; with it `vouches_for()` tells whether it still holds."""
        return self._looks if self.current else None

    def vouches_for(self, instance: str | None, mark: int | None) -> bool:
        """Whether nothing was heard about `instance` since that mark, and it would have been."""
        if mark is None or not self.current or mark < self._floor:
            return False
        if instance is None or (self._instance is not None and instance != self._instance):
            return False
        # What that look told had happened before; what a later one tells may have happened since.
        return self._changed.get(instance, -1) <= mark

    async def run(self) -> None:
        """Until cancelled."""
        pauses = Backoff(0.25, 10.0).pauses(random.Random())
        while True:
            try:
                await self._look()
                self.trouble, pauses = "", Backoff(0.25, 10.0).pauses(random.Random())
                continue
            except (NotAllowed, NotFound) as problem:
                pause = HOPELESS_SECONDS
                self._lost(problem)
            except Refusal as problem:
                # 410: that cursor is gone (a restored backup). All that was known is in doubt.
                pause = next(pauses)
                self._lost(problem)
            except WorkerError as problem:
                pause = next(pauses)
                self._say(problem)
            await asyncio.sleep(pause)

    async def _look(self) -> None:
        if self._cursor is None:
            first = await self._ask({"limit": 1}, within=5.0)
            self._begin_anew(f"{first.ledger}:{first.revision}")
            return
        told = await self._ask({"after": self._cursor, "wait": self._wait, "limit": AT_A_TIME}, within=self._wait + 5.0)
        self._heard_at = self._clock()
        self._looks += 1
        for instance in {event.instance for event in told.items if event.instance}:
            self._note(instance)
        self._cursor = told.next or f"{told.ledger}:{told.revision}"

    async def _ask(self, query: dict[str, object], *, within: float) -> EventsBody:
        said = {**query, "kind": KINDS} | ({"instance": self._instance} if self._instance else {})
        headers = {name: value for name, value in self._at.headers().items() if name == "x-pd-token"}
        ask = Ask("GET", f"{PATH}?{urlencode(said)}", headers)
        answer = checked(self._api, await self._wire.ask(self._api, ask, within=within))
        found: EventsBody = decoded(self._api, answer, EVENTS)
        return found

    def _begin_anew(self, cursor: str) -> None:
        self._cursor, self._heard_at = cursor, self._clock()
        self._looks += 1
        # What was marked before is vouched for no longer: something may have happened in between.
        self._floor = self._looks
        self._changed.clear()

    def _note(self, instance: str) -> None:
        self._changed[instance] = self._looks
        self._changed.move_to_end(instance)
        if len(self._changed) > MOST_REMEMBERED:
            self._changed.popitem(last=False)
            self._floor = self._looks

    def _lost(self, problem: WorkerError) -> None:
        self._cursor = None
        self._say(problem)

    def _say(self, problem: WorkerError) -> None:
        if problem.sentence != self.trouble:
            self.trouble = problem.sentence
            log.warning(
                "changes of the fleet are not heard of: %s; what is cached is asked for again", problem.sentence
            )
