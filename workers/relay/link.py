"""The way to the control plane: what counts as its word, and whether it is there.

Away: it does not answer, or what answers is not it (a proxy's page, a database that cannot be reached). Catching up: it is back,
and is told what it missed. Together: its word counts.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Callable, Mapping

from workers.sdk.errors import WorkerError
from workers.sdk.exchange import Answer, Ask
from workers.sdk.servers import JSON_BODY, ControlPlane, refusal_in
from workers.sdk.wire import Wire

log = logging.getLogger(__name__)

ASK_SECONDS = 1.5
"""A decode gives up its own question after 5 s, and asks one prefill after another."""

BIND, FIND, BEAT, RESOLVE = "/register_dp_rank", "/query_dp_ranks", "/pd/v1/heartbeats", "/pd/v1/resolve"
NOT_FULL = b"Prefill server not fully registered yet"


class State(enum.StrEnum):
    AWAY = "away"
    CATCHING_UP = "catching up"
    TOGETHER = "together"


class Link:
    """`trouble` is the last thing that went wrong, a sentence; `since` when the state began, in seconds since the epoch."""

    def __init__(self, control_plane: ControlPlane, *, clock: Callable[[], float] = time.time) -> None:
        self.at = control_plane
        self._wire = Wire(connections=16, connect_seconds=1.0)
        self._watching = Wire(connections=1, connect_seconds=1.0)
        self._clock = clock
        self.state = State.AWAY
        self.since = clock()
        self.trouble = ""
        self.stirred = asyncio.Event()
        """Something happened that the upkeep should not wait for its next look to see."""

    @property
    def for_seconds(self) -> float:
        """How long the state has lasted, by the clock of this link."""
        return max(0.0, self._clock() - self.since)

    @property
    def together(self) -> bool:
        return self.state is State.TOGETHER

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        within: float = ASK_SECONDS,
    ) -> Answer | None:
        """Its word on this; None when it is away, which is known from now on."""
        return await self._ask(self._wire, method, path, body, within, headers or {})

    async def look(self) -> Answer | None:
        """`GET /health` over a connection of its own, which the control plane counts as one that polls."""
        return await self._ask(self._watching, "GET", "/health", None, ASK_SECONDS, {})

    async def _ask(
        self, wire: Wire, method: str, path: str, body: bytes | None, within: float, headers: Mapping[str, str]
    ) -> Answer | None:
        sent = self.at.headers(**(JSON_BODY if body is not None else {}), **headers)
        try:
            answer = await wire.ask(self.at.kv, Ask(method, path, sent, body), within=within)
        except WorkerError as problem:
            self.went_away(problem.sentence)
            return None
        if is_word(method, path, answer):
            return answer
        self.went_away(refusal_in(self.at.kv, answer).sentence)
        return None

    def went_away(self, why: str) -> None:
        if not self.trouble:
            log.warning("the control plane is away, answers come from what is held here: %s", why)
        elif why != self.trouble:
            log.info("the control plane is still away: %s", why)
        self.trouble = why
        self._become(State.AWAY)

    def came_back(self) -> None:
        if self.state is State.AWAY:
            self._become(State.CATCHING_UP)

    def caught_up(self) -> None:
        if self.state is State.CATCHING_UP:
            log.info("the control plane has all that was acknowledged here; its word counts")
            self.trouble = ""
            self._become(State.TOGETHER)

    async def aclose(self) -> None:
        await self._wire.aclose()
        await self._watching.aclose()

    def _become(self, state: State) -> None:
        if state is not self.state:
            self.state, self.since = state, self._clock()


def is_word(method: str, path: str, answer: Answer) -> bool:
    """Whether an answer is the control plane's own word on what was asked, and not somebody's who stands before it, nor that
    it cannot answer now, nor that it does not take this relay's token: for no fault of the engine's."""
    status = answer.status
    if status in (401, 403, 408, 413, 429) or status >= 500:
        if status != 503:
            return False
        if path == "/health":
            return answer.body.startswith(b"instance ")
        return answer.body.startswith(NOT_FULL) or (path == RESOLVE and NOT_FULL in answer.body)
    if status == 404 and path in (BEAT, BIND, FIND):
        return False
    return not (300 <= status < 400 and status != 304)


def generation(token: str | None) -> dict[str, str]:
    """The header that says which launch a registration is of."""
    return {"x-pd-generation": token} if token is not None else {}
