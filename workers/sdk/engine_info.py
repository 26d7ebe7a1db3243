"""Weights dictionaries up and down: published by seeds, fetched by replicas, within limits of bytes, silence and time.

Source of the wire: engine_info_bootstrap_server.py, and the loader's path on an engine's own port (http_server.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from .backoff import Backoff
from .errors import NotFound, Refusal, TimedOut, TooLarge, Unreachable, WorkerError
from .exchange import Answer, Ask
from .places import Place
from .servers import JSON_BODY, ControlPlane, checked, decoded
from .wire import Wire

log = logging.getLogger(__name__)

PUT_PATH = "/register_transfer_engine_info"
GET_PATH, LOADER_PATH = "/get_transfer_engine_info", "/remote_instance_transfer_engine_info"
BODY_LIMIT = 64 * 2**20
PART_TENSORS = 2000
MAX_UINT64 = 2**64 - 1
AT_ONCE = 4
NO_SUCH_PATH = "Not Found"

Tensor = tuple[int, int, int]
"""Address, number of elements, bytes of each."""

UInt = Annotated[int, msgspec.Meta(ge=0)]
TENSORS = msgspec.json.Decoder(dict[str, tuple[UInt, UInt, UInt]])


class InfoBody(msgspec.Struct):
    rank: int
    remote_instance_transfer_engine_info: tuple[str, msgspec.Raw]


INFO = msgspec.json.Decoder(InfoBody)


@dataclass(frozen=True, slots=True)
class Weights:
    """What one rank published: the transfer engine's session (`ip:port`), and the dictionary as it came (`raw`, JSON)."""

    rank: int
    session_id: str
    raw: bytes

    def tensors(self) -> dict[str, Tensor]:
        """By name: address, number of elements, bytes of each; numbers exact. 57 MiB take a third of a second."""
        try:
            return TENSORS.decode(self.raw)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            raise WorkerError(f"the weights of rank {self.rank} cannot be read: {problem}") from None


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of fetching. `total`: seconds for all tries at all sources; `each`: for one; `stall`: without a byte."""

    total: float = 60.0
    each: float = 30.0
    stall: float = 5.0
    most_bytes: int = BODY_LIMIT


class EngineInfo:
    """At the engine-info server of one control plane, or at any seed's own."""

    def __init__(self, wire: Wire, control_plane: ControlPlane, *, dice: random.Random | None = None) -> None:
        self._wire, self._at = wire, control_plane
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._dice = dice or random.Random()

    async def publish(
        self,
        rank: int,
        session_id: str,
        weights: Mapping[str, Tensor],
        *,
        tp_rank: int | None = None,
        within: float = 60.0,
    ) -> None:
        """Tell where the weights of world rank `rank` lie, tried again while nobody answers. `tp_rank` is what SGLang's own
        server keys by; without it `rank` is sent for it.

        Raises TooLarge before a byte is sent, Disagreement when another living session has this rank.
        """
        size = check_weights(weights)
        if size > BODY_LIMIT:
            raise TooLarge(f"the weights dictionary has some {size} bytes; at most {BODY_LIMIT} are sent")
        place = self._at.engine

        def parts() -> Iterator[bytes]:
            return encoded_parts(rank, rank if tp_rank is None else tp_rank, session_id, weights)

        body = b"".join(parts()) if len(weights) <= PART_TENSORS else parts
        ask = Ask("PUT", PUT_PATH, self._at.headers(**JSON_BODY), body)
        await self._persist([place], ask, Patience(within, min(within, 30.0), within), none_yet=False)

    async def fetch(
        self,
        rank: int,
        *,
        sources: Sequence[Place] | None = None,
        patience: Patience = Patience(),
        none_yet: bool = False,
    ) -> Weights:
        """The weights of `rank` from the first of `sources` that has them (without: from the control plane), going round
        them with growing pauses. With `none_yet` a rank that nobody has published so far is waited for.

        Raises, within `patience.total` seconds, the last error: NotFound, Unreachable, TooLarge, Refusal.
        """
        places = list(sources) if sources is not None else [self._at.engine]
        if not places:
            raise WorkerError("there is no source to fetch weights from")
        ask = Ask("GET", f"{GET_PATH}?rank={rank}", most=patience.most_bytes, stall=patience.stall)
        place, answer = await self._persist(places, ask, patience, none_yet=none_yet)
        told: InfoBody = decoded(place, answer, INFO)
        session, raw = told.remote_instance_transfer_engine_info
        return Weights(told.rank, session, bytes(raw))

    async def fetch_or_none(
        self,
        rank: int,
        *,
        sources: Sequence[Place] | None = None,
        patience: Patience = Patience(),
    ) -> Weights | None:
        """The same for whoever may load in another way: None when they cannot be had in time, and why in the log."""
        try:
            return await self.fetch(rank, sources=sources, patience=patience)
        except WorkerError as problem:
            log.warning("the weights of rank %d are loaded in the normal way: %s", rank, problem.sentence)
            return None

    async def _persist(
        self, places: Sequence[Place], ask: Ask, patience: Patience, *, none_yet: bool
    ) -> tuple[Place, Answer]:
        last: WorkerError | None = None
        pauses = Backoff(0.2, 5.0).pauses(self._dice)
        try:
            async with asyncio.timeout(patience.total), self._gate:
                while True:
                    for place in places:
                        try:
                            return place, await self._once(place, ask, patience)
                        except WorkerError as problem:
                            last = problem
                            if not _worth_another(problem, several=len(places) > 1, none_yet=none_yet):
                                raise
                    await asyncio.sleep(next(pauses))
        except TimeoutError:
            why = last.sentence if last is not None else "nothing was answered"
            where = ", ".join(map(str, places[:4]))
            raise TimedOut(where, f"not within {patience.total:g} s; at last: {why}") from None

    async def _once(self, place: Place, ask: Ask, patience: Patience) -> Answer:
        headers = self._at.headers(**ask.headers) if place == self._at.engine else dict(ask.headers)
        sent = Ask(ask.method, ask.path, headers, ask.body, ask.most, ask.fresh, ask.stall)
        try:
            return checked(place, await self._wire.ask(place, sent, within=patience.each))
        except NotFound as problem:
            if problem.said != NO_SUCH_PATH or ask.method != "GET":
                raise
        # An engine's own port: the loader's path, which answers 400 for all that goes wrong.
        path = ask.path.replace(GET_PATH, LOADER_PATH)
        other = Ask(ask.method, path, headers, None, ask.most, ask.fresh, ask.stall)
        return checked(place, await self._wire.ask(place, other, within=patience.each))


def order_of(sources: Sequence[Place], receiver: str) -> list[Place]:
    """The sources in the order in which `receiver` (its name and rank) asks them: receivers spread evenly, each always alike.

    >>> from .places import Place
    >>> seeds = [Place("10.0.0.1", 6789), Place("10.0.0.2", 6789)]
    >>> [seed.host for seed in order_of(seeds, "replica-3/0")], [seed.host for seed in order_of(seeds, "replica-0/0")]
    (['10.0.0.1', '10.0.0.2'], ['10.0.0.2', '10.0.0.1'])
    """
    if not sources:
        return []
    first = _number(receiver) % len(sources)
    return [*sources[first:], *sources[:first]]


def start_slot(receiver: str, *, slots: int, seconds: float) -> float:
    """How long `receiver` waits before it begins, so that many that start at once do not pull at once: one of `slots`
    moments within `seconds`, always the same for it."""
    return _number(f"slot of {receiver}") % max(slots, 1) * seconds / max(slots, 1)


def check_weights(weights: Mapping[str, Sequence[int]]) -> int:
    """About how many bytes they take as JSON. Raises WorkerError for numbers that no address or size can be."""
    size = 200
    for name, tensor in weights.items():
        if len(tensor) != 3 or not all(type(n) is int and 0 <= n <= MAX_UINT64 for n in tensor):
            raise WorkerError(
                f"{name[:100]!r} must have an address, a number of elements and their size, each from 0 to 2^64-1"
            )
        size += len(name) + 50
    return size


def encoded_parts(rank: int, tp_rank: int, session_id: str, weights: Mapping[str, Sequence[int]]) -> Iterator[bytes]:
    """The body of a publication in parts of 2,000 tensors, so that it is never held twice."""
    session = msgspec.json.encode(session_id)
    yield b'{"tp_rank":%d,"rank":%d,"transfer_engine_info":{"session_id":%b,"weights_info_dict":{' % (
        tp_rank,
        rank,
        session,
    )
    part: dict[str, Sequence[int]] = {}
    first = True
    for name, tensor in weights.items():
        part[name] = tensor
        if len(part) == PART_TENSORS:
            yield _inside(part, first)
            part, first = {}, False
    if part:
        yield _inside(part, first)
    yield b"}}}"


def _inside(part: Mapping[str, Sequence[int]], first: bool) -> bytes:
    inner = msgspec.json.encode(part)[1:-1]
    return inner if first else b"," + inner


def _worth_another(problem: WorkerError, *, several: bool, none_yet: bool) -> bool:
    if isinstance(problem, NotFound):
        return several or none_yet
    if isinstance(problem, Refusal):
        return problem.status >= 500 or problem.status == 429 or several
    return isinstance(problem, Unreachable) or several


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
