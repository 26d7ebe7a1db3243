"""What a worker tells about its rooms, gathered and sent in batches: how many are open, and how far each was proven.

Queues are bounded: when nobody takes reports the oldest evidence goes first, and is counted. Ages are sent, never times of
day, since the clocks of two hosts are never compared.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from controlplane.domain.claims import PASSED, RUNGS
from controlplane.domain.reports import MAX_AGE_SECONDS, MAX_ITEMS, OUTCOME

from .errors import NotAllowed, NotFound, WorkerError
from .exchange import Ask
from .places import Place
from .servers import JSON_BODY, ControlPlane, checked
from .wire import Wire

log = logging.getLogger(__name__)

OPEN_ROOMS_PATH, EVIDENCE_PATH = "/api/v1/workers/open-rooms", "/api/v1/workers/evidence"
SEND_SECONDS = 5.0
HOPELESS_SECONDS = 60.0
MOST_DETAIL = 200
MOST_ON_THEIR_WAY = 10_000

Count = Callable[[], Mapping[int, int]]
"""How many rooms are open now, by DP rank; it must be quick, and know of every room."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One rung that one room reached, or failed at: `rung` is one of RUNGS; the result `passed` proves it, every other word
    is a failure. `took`: seconds since its rung before, here."""

    room: int
    instance: str
    rung: str
    result: str
    at: float
    detail: str = ""
    launch_token: str = ""
    took: float | None = None

    def as_item(self, now: float) -> dict[str, object]:
        """JSON; rooms are text there, for they are beyond 2^53."""
        age = min(max(now - self.at, 0.0), MAX_AGE_SECONDS)
        return {
            "room": str(self.room),
            "instance": self.instance,
            "rung": self.rung,
            "result": self.result,
            "age_seconds": round(age, 3),
            "detail": self.detail,
            "launch_token": self.launch_token,
            **({"took_seconds": round(min(self.took, MAX_AGE_SECONDS), 6)} if self.took is not None else {}),
        }


class Reports:
    """`source` is the name of this process, the same while it runs. `run()` is a task of its own."""

    def __init__(
        self,
        wire: Wire,
        control_plane: ControlPlane,
        api: Place,
        *,
        source: str,
        every: float = 1.0,
        most: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wire, self._at, self._api, self._source = wire, control_plane, api, source[:128]
        self._every, self._clock = every, clock
        self._evidence: deque[Evidence] = deque(maxlen=most)
        self._counts: dict[str, tuple[Count, str]] = {}
        self._hopeless: dict[str, float] = {}
        # Of rooms on their way: when their last rung was noted. The oldest go first.
        self._noted: dict[tuple[int, str], float] = {}
        self._lock = threading.Lock()
        self._told = ""
        self.sent = 0
        self.dropped = 0

    def note(
        self,
        room: int,
        instance: str,
        rung: str,
        result: str = "passed",
        *,
        detail: str = "",
        launch_token: str = "",
        took: float | None = None,
    ) -> None:
        """Never waits. May be called from any thread. `took`: since the rung before; by itself, since that one was noted."""
        if rung not in RUNGS or not OUTCOME.fullmatch(result):
            raise WorkerError(f"evidence is about one of {', '.join(RUNGS)}, with a result in one lower-case word")
        if len(self._evidence) == self._evidence.maxlen:
            self.dropped += 1
        now, what = self._clock(), (room, instance)
        with self._lock:
            before = self._noted.pop(what, None)
            if rung != RUNGS[-1] and result == PASSED:
                self._noted[what] = now
                if len(self._noted) > MOST_ON_THEIR_WAY:
                    del self._noted[next(iter(self._noted))]
        if took is None and before is not None:
            took = now - before
        self._evidence.append(
            Evidence(room, instance, rung, result, now, detail[:MOST_DETAIL], launch_token[:128], took)
        )

    def count_open(self, instance: str, count: Count, *, launch_token: str = "") -> None:
        """From now on tell how many rooms of `instance` are open here, by DP rank. Zeros count: they let a drain end."""
        self._counts[instance] = (count, launch_token)

    async def run(self) -> None:
        """Until cancelled; call `flush()` afterwards for the rest."""
        while True:
            await asyncio.sleep(self._every)
            await self.flush()

    async def flush(self) -> None:
        """Send what is there. Nothing is raised: what could not be sent stays queued, while there is room."""
        try:
            await self._send_counts()
            await self._send_evidence()
            self._told = ""
        except WorkerError as problem:
            if problem.sentence != self._told:
                self._told = problem.sentence
                log.warning("reports are not taken: %s", problem.sentence)

    async def _send_counts(self) -> None:
        items = [
            {"instance": instance, "dp": dp, "open_rooms": rooms, "age_seconds": 0, "launch_token": token}
            for instance, (count, token) in self._counts.items()
            for dp, rooms in _counted(instance, count).items()
        ]
        for start in range(0, len(items), MAX_ITEMS):
            await self._post(OPEN_ROOMS_PATH, {"source": self._source, "open_rooms": items[start : start + MAX_ITEMS]})

    async def _send_evidence(self) -> None:
        while self._evidence:
            batch = [self._evidence.popleft() for _ in range(min(len(self._evidence), MAX_ITEMS))]
            now = self._clock()
            try:
                body = {"source": self._source, "evidence": [one.as_item(now) for one in batch]}
                if await self._post(EVIDENCE_PATH, body):
                    self.sent += len(batch)
                else:
                    self.dropped += len(batch)
            except WorkerError:
                self._back(batch)
                raise

    def _back(self, batch: list[Evidence]) -> None:
        """To the front again, as far as there is room; the oldest go."""
        most = self._evidence.maxlen or 0
        room = most - len(self._evidence)
        self.dropped += max(0, len(batch) - room)
        self._evidence.extendleft(reversed(batch[max(0, len(batch) - room) :]))

    async def _post(self, path: str, body: Mapping[str, object]) -> bool:
        """False where nobody takes such reports, which is asked again a minute later."""
        if self._hopeless.get(path, -1e9) > self._clock():
            return False
        sent = {name: value for name, value in self._at.headers(**JSON_BODY).items() if name != "x-pd-instance"}
        try:
            ask = Ask("POST", path, sent, msgspec.json.encode(body))
            checked(self._api, await self._wire.ask(self._api, ask, within=SEND_SECONDS))
        except (NotFound, NotAllowed) as problem:
            self._hopeless[path] = self._clock() + HOPELESS_SECONDS
            log.warning("reports to %s are not taken, and dropped for a minute: %s", path, problem.sentence)
            return False
        return True


def _counted(instance: str, count: Count) -> Mapping[int, int]:
    """Nothing when whoever counts fails: no count is no zero."""
    try:
        return count()
    except Exception:
        log.exception("the open rooms of %s cannot be counted", instance)
        return {}
