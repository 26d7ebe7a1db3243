"""What a worker tells about its rooms, gathered and sent in batches: how many are open, and how far each was proven.

While nobody takes reports they wait, bounded (`backlog`), and are told afterwards. Ages are sent, never times of day, since
the clocks of two hosts are never compared; batches are numbered, so that one whose answer was lost is counted once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from controlplane.domain.claims import PASSED, RUNGS
from controlplane.domain.reports import MAX_ITEMS, MAX_ROOM, OUTCOME

from .backlog import MOST, Backlog, Evidence
from .errors import NotAllowed, NotFound, Refusal, WorkerError
from .exchange import Answer, Ask
from .places import Place
from .servers import JSON_BODY, ControlPlane, checked
from .skew import Dialect, items_at_fault, unknown_instances
from .wire import Wire

log = logging.getLogger(__name__)

OPEN_ROOMS_PATH, EVIDENCE_PATH = "/api/v1/workers/open-rooms", "/api/v1/workers/evidence"
SEND_SECONDS = 5.0
HOPELESS_SECONDS = 60.0
BATCHES_AT_ONCE = 10
"""Of what has waited; then the others have their turn, who were waiting too."""

MOST_DETAIL = 200
MOST_ON_THEIR_WAY = 10_000
MOST_NAMED = 100
LATER = frozenset({408, 425, 429})
"""What a refusal says that has nothing against the report itself; so does everything from 500 on."""

Count = Callable[[], Mapping[int, int]]
"""How many rooms are open now, by DP rank; it must be quick, and know of every room."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Sent again as it is until it is answered."""

    number: int
    items: list[Evidence]


def plain(text: str, *, most: int = MOST_DETAIL) -> str:
    """What a report can carry of it: at most so many characters, each of which can be printed and encoded.

    >>> plain("no\\x00 memory\\ud800"), plain("long", most=2)
    ('no  memory ', 'lo')
    """
    said = text[:most]
    return said if said.isprintable() else "".join(c if c.isprintable() else " " for c in said)


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
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wire, self._at, self._api, self._source = wire, control_plane, api, plain(source, most=128)
        self._every, self._clock = every, clock
        self._backlog = Backlog(most)
        # Made up anew, so that a process of the same name is not taken for this one.
        self._run, self._number = secrets.token_hex(8), 0
        self._batch: _Batch | None = None
        self._counts: dict[str, tuple[Count, str]] = {}
        self._hopeless: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        self._dialect = Dialect()
        # Fields and names of which it was said that nobody knows them there.
        self._strange: frozenset[str] = frozenset()
        self._named: set[str] = set()
        # Of rooms on their way: when their last rung was noted. The oldest go first.
        self._noted: dict[tuple[int, str], float] = {}
        self._lock = threading.Lock()
        self._turn = asyncio.Lock()
        self._told = ""
        self._lost = 0
        self.sent = 0

    @property
    def dropped(self) -> int:
        """Of what was noted, what will never be told."""
        return self._lost + self._backlog.dropped

    @property
    def waiting(self) -> int:
        """Of what was noted, what was not taken yet."""
        return len(self._backlog) + (len(self._batch.items) if self._batch is not None else 0)

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
        """Never waits. May be called from any thread. `took`: since the rung before; by itself, since that one was noted.
        Raises WorkerError for what no report can say."""
        if rung not in RUNGS or not OUTCOME.fullmatch(result):
            raise WorkerError(f"evidence is about one of {', '.join(RUNGS)}, with a result in one lower-case word")
        if not 0 <= room <= MAX_ROOM or not 0 < len(instance) <= 100 or not instance.isprintable():
            raise WorkerError(
                "evidence is about a room from 0 to 2^63-1, and names its prefill in at most 100 printable characters"
            )
        now, what = self._clock(), (room, instance)
        with self._lock:
            before = self._noted.pop(what, None)
            if rung != RUNGS[-1] and result == PASSED:
                self._noted[what] = now
                if len(self._noted) > MOST_ON_THEIR_WAY:
                    del self._noted[next(iter(self._noted))]
        if took is None and before is not None:
            took = now - before
        token = plain(launch_token, most=128)
        self._backlog.add(Evidence(room, instance, rung, result, now, plain(detail), token, took))

    def count_open(self, instance: str, count: Count, *, launch_token: str = "") -> None:
        """From now on tell how many rooms of `instance` are open here, by DP rank. Zeros count: they let a drain end."""
        self._counts[instance] = (count, launch_token)

    async def run(self) -> None:
        """Until cancelled; call `flush()` afterwards for the rest."""
        while True:
            await asyncio.sleep(self._every)
            await self.flush()

    async def flush(self) -> None:
        """Send what is there. Nothing is raised: what could not be sent waits, while there is room."""
        async with self._turn:
            try:
                await self._send_counts()
                await self._send_evidence()
                self._told = ""
            except WorkerError as problem:
                self._backlog.put_off()
                if problem.sentence != self._told:
                    self._told = problem.sentence
                    log.warning("reports are not taken: %s; %d wait", problem.sentence, self.waiting)

    async def flush_all(self) -> None:
        """Everything, however long that takes, unless nobody takes it."""
        waiting = -1
        while self.waiting != waiting:
            waiting = self.waiting
            await self.flush()

    async def _send_counts(self) -> None:
        items = [
            {"instance": instance, "dp": dp, "open_rooms": rooms, "age_seconds": 0, "launch_token": token}
            for instance, (count, token) in self._counts.items()
            for dp, rooms in _counted(instance, count).items()
        ]
        for start in range(0, len(items), MAX_ITEMS):
            report = {"source": self._source, "open_rooms": items[start : start + MAX_ITEMS]}
            try:
                await self._post(OPEN_ROOMS_PATH, report)
            except Refusal as problem:
                if _is_for_later(problem):
                    raise
                self._refused_for_good(OPEN_ROOMS_PATH, problem, 0)

    async def _send_evidence(self) -> None:
        for _ in range(BATCHES_AT_ONCE):
            if self._batch is None:
                items = self._backlog.take(self._clock())
                if not items:
                    return
                self._number += 1
                self._batch = _Batch(self._number, items)
            if not await self._send(self._batch):
                return

    async def _send(self, batch: _Batch) -> bool:
        """Until it is settled, each time with less: without fields that an older control plane does not know, and without
        items that make no sense to it, so that one of them does not take all the others with it."""
        while batch.items:
            now = self._clock()
            items = [one.as_item(now) for one in batch.items]
            numbered = {"run": self._run, "number": batch.number}
            report = self._dialect.said({"source": self._source, "batch": numbered, "evidence": items}, now)
            try:
                answer = await self._post(EVIDENCE_PATH, report)
            except Refusal as problem:
                if _is_for_later(problem):
                    raise
                if not self._adapts(problem, batch):
                    self._refused_for_good(EVIDENCE_PATH, problem, self._drop_batch())
                    return False
                continue
            if answer is None:
                return False
            self.sent += len(batch.items)
            self._name_unknown(answer)
            break
        self._batch = None
        return True

    def _adapts(self, problem: Refusal, batch: _Batch) -> bool:
        """Whether less of it may be taken."""
        strange = self._dialect.learn(problem.faults, self._clock())
        if fresh := strange - self._strange:
            self._strange |= fresh
            log.warning(
                "the control plane at %s is older than this worker and does not know %s: reports go without%s",
                self._api,
                " and ".join(sorted(fresh)),
                "; one whose answer is lost may be counted twice" if "batch" in fresh else "",
            )
        if strange:
            return True
        wrong = {place for place in items_at_fault(problem.faults) if place < len(batch.items)}
        batch.items[:] = [one for place, one in enumerate(batch.items) if place not in wrong]
        self._lost += len(wrong)
        if wrong:
            self._refused_for_good(EVIDENCE_PATH, problem, len(wrong))
        return bool(wrong)

    def _name_unknown(self, answer: Answer) -> None:
        """Of what is about nobody, nothing is kept: that is said, once for each name."""
        for name in unknown_instances(answer.body):
            if name not in self._named and len(self._named) < MOST_NAMED:
                self._named.add(name)
                log.warning("the control plane knows no instance %s: evidence of its rooms is not kept", plain(name))

    async def _post(self, path: str, body: Mapping[str, object]) -> Answer | None:
        """None where nobody takes such reports: that is asked again a minute later, and who refuses then as well gets no
        more of what waited. Raises WorkerError when it is to be tried again soon, or a Refusal of what it says."""
        since = self._hopeless.get(path)
        if since is not None and self._clock() < since + HOPELESS_SECONDS:
            return None
        sent = {name: value for name, value in self._at.headers(**JSON_BODY).items() if name != "x-pd-instance"}
        try:
            ask = Ask("POST", path, sent, msgspec.json.encode(body))
            answer = checked(self._api, await self._wire.ask(self._api, ask, within=SEND_SECONDS))
        except (NotFound, NotAllowed) as problem:
            self._hopeless[path] = self._clock()
            dropped = self._give_up() if since is not None and path == EVIDENCE_PATH else 0
            log.warning("reports to %s are not taken, %d dropped: %s", path, dropped, problem.sentence)
            return None
        self._hopeless.pop(path, None)
        self._refused.pop(path, None)
        return answer

    def _refused_for_good(self, path: str, problem: Refusal, dropped: int) -> None:
        if self._refused.get(path) != problem.sentence:
            self._refused[path] = problem.sentence
            log.warning("a report to %s was refused, %d dropped: %s", path, dropped, problem.sentence)

    def _drop_batch(self) -> int:
        batch, self._batch = self._batch, None
        self._lost += len(batch.items) if batch is not None else 0
        return len(batch.items) if batch is not None else 0

    def _give_up(self) -> int:
        return self._drop_batch() + self._backlog.clear()


def _is_for_later(problem: Refusal) -> bool:
    return problem.status >= 500 or problem.status in LATER


def _counted(instance: str, count: Count) -> Mapping[int, int]:
    """Nothing when whoever counts fails: no count is no zero."""
    try:
        return count()
    except Exception:
        log.exception("the open rooms of %s cannot be counted", instance)
        return {}
