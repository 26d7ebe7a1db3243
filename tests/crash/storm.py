"""A seeded storm of every write the wires know, by clients that keep a book of what was acknowledged to them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from controlplane.simulation.listener import Doors, Listener
from tests.crash.book import MISSING, Book
from tests.crash.wire import TOPOLOGY_PATH, Answer, Client, Unanswered, compact, engine_body, route_body, slot_path

# TEST-NET-3 (RFC 5737), outside the networks that may be probed: such ranks count as present without being asked.
HOST_OF_RANKS = "127.0.0.1"
NOBODYS_NETWORK = "203.0.113."
STEADY = ("steady-1", "steady-2")
CHURNING = ("churn-1", "churn-2", "churn-3")
SEEDS = ("seed-1", "seed-2")
SHAPES = ((1, 1), (1, 4), (2, 2), (2, 4), (4, 2))
STEADY_SHAPE = (2, 4)
ROOM_WRITERS = 5
REBOUND_ROOMS = 40
LARGE_TENSORS = 6000

At = tuple[int, int]


@dataclass(slots=True)
class Attempt:
    """One launch of an engine: where its ranks are, which of them asked to be registered, and who was told OK."""

    shape: At
    rows: dict[At, tuple[str, int]]
    sent: set[At] = field(default_factory=set)
    acknowledged: set[At] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return len(self.acknowledged) == self.shape[0] * self.shape[1]

    @property
    def could_be_complete(self) -> bool:
        return len(self.sent) == self.shape[0] * self.shape[1]


class Storm:
    """Clients of one directory; they outlive its crashes. `listening`: ranks have real ZeroMQ sockets behind them.
    `patient`: a lost connection and a 503 are no surprise, and everybody goes on."""

    def __init__(
        self, kv_port: int, engine_port: int, *, seed: int, listening: bool = False, patient: bool = False
    ) -> None:
        self.kv_port, self.engine_port = kv_port, engine_port
        self.random = random.Random(seed)
        self.listening = listening
        self.patient = patient
        self.rooms, self.engines = Book(), Book()
        self.attempts: dict[str, list[Attempt]] = {name: [] for name in (*STEADY, *CHURNING)}
        self.seen: dict[tuple[str, At], float] = {}
        self.beats: dict[str, float] = {}
        self.looked_up: dict[tuple[str, str], bytes] = {}
        self.wrong: list[str] = []
        self.answers: dict[str, int] = {}
        self.lost = 0
        self._numbers = itertools.count(1)
        self._over = False
        self._doors = Doors(HOST_OF_RANKS) if listening else None
        self._listeners: dict[str, list[Listener]] = {}

    async def blow(
        self, seconds: float, kill: Callable[[], None], *, after: float = 0.0, until: Callable[[], bool] = lambda: True
    ) -> None:
        """Everybody writes; after `seconds`, and not before `until` holds, comes the disaster, and they go on for
        `after` seconds."""
        self._over = False
        kv, engine = self.kv_port, self.engine_port
        work = [self._client(kv, partial(self._steady, name=name)) for name in STEADY]
        work += [self._client(kv, partial(self._churn, name=name)) for name in CHURNING]
        work += [self._client(kv, partial(self._bind, writer=number)) for number in range(ROOM_WRITERS)]
        for name, large in itertools.product(SEEDS, (False, True)):
            work.append(self._client(engine, partial(self._publish, name=name, large=large)))
        work += [self._client(kv, role) for role in (self._beat, self._look, self._find_rooms)]
        tasks = [asyncio.ensure_future(each) for each in work]
        await asyncio.sleep(seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                while not until():
                    await asyncio.sleep(0.005)
        kill()
        await asyncio.sleep(after)
        self._over = True
        done, late = await asyncio.wait(tasks, timeout=40)
        for task in late:
            task.cancel()
        assert not late, f"{len(late)} clients still wait for an answer of a process that is gone"
        for task in done:
            task.result()

    async def _client(self, port: int, role: Callable[[Client], Awaitable[None]]) -> None:
        while not self._over:
            async with Client(port) as client:
                try:
                    await role(client)
                except Unanswered as why:
                    if not self.patient:
                        if not self._over:
                            self.wrong.append(f"a client lost its connection before the kill: {why}")
                        return
                    self.lost += 1
                    await asyncio.sleep(0.05)

    def close(self) -> None:
        if self._doors is not None:
            self._doors.close()

    async def _ask(
        self, client: Client, what: str, *request: object, allowed: tuple[int, ...] = (), **more: str
    ) -> Answer | None:
        """The answer if it is 200 or allowed; None for any other, with a note if it is wrong; raises Unanswered."""
        answer = await client.ask(*request, **more)  # type: ignore[arg-type]
        self.answers[f"{what} {answer.status}"] = self.answers.get(f"{what} {answer.status}", 0) + 1
        if answer.status == 200 or answer.status in allowed:
            return answer
        if not (self.patient and answer.status == 503 and answer.text.strip()):
            self.wrong.append(f"{what} was answered {answer.status}: {answer.text[:200]}")
        return None

    # --- Registrations ---------------------------------------------------------------------------------------

    def _launch(self, name: str, shape: At) -> Attempt:
        slots = [(dp, tp) for dp in range(shape[0]) for tp in range(shape[1])]
        if self._doors is None:
            host = f"{NOBODYS_NETWORK}{1 + list(self.attempts).index(name)}"
            rows = {at: (host, 20_000 + next(self._numbers) % 40_000) for at in slots}
        else:
            for listener in self._listeners.pop(name, []):
                listener.close()
            opened = [self._doors.open() for _ in slots]
            self._listeners[name] = opened
            rows = {at: (HOST_OF_RANKS, listener.port) for at, listener in zip(slots, opened, strict=True)}
        attempt = Attempt(shape, rows)
        self.attempts[name].append(attempt)
        return attempt

    async def _register(self, client: Client, name: str, attempt: Attempt, at: At) -> None:
        ip, port = attempt.rows[at]
        body = route_body(dp=attempt.shape[0], tp=attempt.shape[1], at=at, ip=ip, port=port, prefill_http_port=30_000)
        attempt.sent.add(at)
        # Real ranks that a newer launch meets are alive for a moment: 409 asks to try again, as SGLang's client does.
        for _ in range(20 if self.listening or self.patient else 1):
            began = time.time()
            answer = await self._ask(
                client, "PUT /route", "PUT", "/route", body, instance=name, allowed=(409,) if self.listening else ()
            )
            if answer is not None and answer.status == 200:
                attempt.acknowledged.add(at)
                self.seen[name, at] = began
                return
            await asyncio.sleep(0.1)

    async def _steady(self, client: Client, name: str) -> None:
        """One launch for ever, whose ranks register again and again."""
        if not self.attempts[name]:
            self._launch(name, STEADY_SHAPE)
        attempt = self.attempts[name][-1]
        for at in attempt.rows:
            await self._register(client, name, attempt, at)
        while not self._over:
            await self._register(client, name, attempt, self.random.choice(list(attempt.rows)))
            await asyncio.sleep(self.random.random() * 0.004)

    async def _churn(self, client: Client, name: str) -> None:
        """One launch after another, with other sizes and ports; some die before they are whole."""
        while not self._over:
            attempt = self._launch(name, self.random.choice(SHAPES))
            ranks = list(attempt.rows)
            if self.random.random() < 0.3:
                ranks = ranks[: self.random.randint(1, len(ranks))]
            results = await asyncio.gather(
                *(self._register_alone(name, attempt, at) for at in ranks), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            await asyncio.sleep(self.random.random() * (0.8 if self.listening else 0.15))

    async def _register_alone(self, name: str, attempt: Attempt, at: At) -> None:
        async with Client(self.kv_port) as client:
            await self._register(client, name, attempt, at)

    # --- Rooms, engine info, heartbeats -----------------------------------------------------------------------

    async def _bind(self, client: Client, writer: int) -> None:
        """Every other binding is of a room that had another rank before."""
        while not self._over:
            name = self.random.choice(STEADY)
            number = next(self._numbers)
            room = number % REBOUND_ROOMS if number % 2 else self.random.getrandbits(63)
            room = room * ROOM_WRITERS + writer if number % 2 else room
            history = self.rooms[name, room]
            dp = self.random.randrange(STEADY_SHAPE[0])
            history.send(dp)
            body = {"bootstrap_room": room, "dp_rank": dp}
            if await self._ask(client, "bind", "POST", "/register_dp_rank", body, instance=name):
                history.acknowledge(dp)
                self.rooms.acknowledged += 1
            else:
                history.refuse(dp)

    async def _publish(self, client: Client, name: str, large: bool) -> None:
        while not self._over:
            rank = self.random.randrange(4) + (100 if large else 0)
            number = next(self._numbers)
            session = f"{NOBODYS_NETWORK}9:{number}"
            weights = self._weights(LARGE_TENSORS if large else self.random.randint(0, 30))
            history = self.engines[name, rank]
            # Kept as the bytes that a look-up must answer.
            value = b"[" + compact(session) + b"," + compact(weights) + b"]"
            history.send(value)
            path, body = "/register_transfer_engine_info", engine_body(rank, session, weights)
            if await self._ask(client, "publish", "PUT", path, body, instance=name):
                history.acknowledge(value)
                self.engines.acknowledged += 1
            else:
                history.refuse(value)
            await asyncio.sleep(self.random.random() * (0.2 if large else 0.01))

    def _weights(self, tensors: int) -> dict[str, list[int]]:
        first = self.random.getrandbits(62)
        # Addresses beyond 2^53, an empty tensor, and a name that is not ASCII.
        weights = {f"model.layers.{n}.gewicht_ß.weight": [first + 4096 * n, n * 1024, 2] for n in range(tensors)}
        return {**weights, f"lm_head.{first}": [2**64 - 1, 0, 1]}

    async def _beat(self, client: Client) -> None:
        while not self._over:
            worker, began = f"worker-{self.random.randrange(8)}", time.time()
            body = {"worker": worker, "slots": [[0, 0, 0, 0]], "lease_seconds": 600}
            if await self._ask(client, "beat", "POST", "/pd/v1/heartbeats", body, instance=STEADY[0]):
                self.beats[worker] = began
            await asyncio.sleep(0.005)

    # --- Readers ----------------------------------------------------------------------------------------------

    async def _look(self, client: Client) -> None:
        """A decode: what it was told once it must be told for as long as the launch lives."""
        while not self._over:
            name = self.random.choice(STEADY)
            dp, tp = (self.random.randrange(size) for size in STEADY_SHAPE)
            path = self.random.choice((TOPOLOGY_PATH, slot_path(dp, tp)))
            # The ranks of a launch that is still registering come first; 404 before the first of all.
            answer = await self._ask(client, "look-up", "GET", path, instance=name, allowed=(404, 503))
            if answer is not None and answer.status == 200:
                self._same_as_before(name, path, answer.body)
            elif (name, path) in self.looked_up and not self.patient:
                self.wrong.append(f"{name} {path} was answered before, and is now {answer}")
            await asyncio.sleep(0.002)

    def _same_as_before(self, name: str, path: str, body: bytes) -> None:
        before = self.looked_up.setdefault((name, path), body)
        if before != body:
            self.wrong.append(f"{name} {path} was {before!r} and is {body!r}")

    async def _find_rooms(self, client: Client) -> None:
        """What a look-up has shown was committed: it may not be lost either."""
        while not self._over:
            name, writer = self.random.choice(STEADY), self.random.randrange(ROOM_WRITERS)
            rooms = [n * ROOM_WRITERS + writer for n in range(REBOUND_ROOMS)]
            body = {"bootstrap_rooms": rooms}
            answer = await self._ask(client, "query", "POST", "/query_dp_ranks", body, instance=name, allowed=(404,))
            for room, dp in answer.json().items() if answer and answer.status == 200 else ():
                history = self.rooms[name, int(room)]
                if history.acknowledged is MISSING and dp in history.sent:
                    history.acknowledge(dp)
            await asyncio.sleep(0.005)
