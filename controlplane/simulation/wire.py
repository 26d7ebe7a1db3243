"""The HTTP side of a simulated instance: SGLang's calls, its time-outs and its patience."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from controlplane.simulation import payload

TIMEOUT_SECONDS = 5.0
ATTEMPTS = 5
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 30.0
AT_ONCE = 64
READY_QUERY = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a status and the text with it, or no status and the failure's name."""

    status: int | None
    text: str

    @property
    def ok(self) -> bool:
        return self.status == 200

    def __str__(self) -> str:
        return f"{self.status} {self.text}".strip() if self.status else self.text


def retry_delay(attempt: int, *, clock: float) -> float:
    """Seconds that SGLang waits after its `attempt`-th failure (from 0): doubling, jittered by its clock.

    >>> retry_delay(0, clock=7.0), retry_delay(2, clock=7.0)
    (0.75, 3.0)
    """
    return min(FIRST_DELAY_SECONDS * 2**attempt, LONGEST_DELAY_SECONDS) * (0.75 + 0.25 * (clock % 1))


class Wire:
    """Calls of one simulated instance. `kv` and `engine_info` are base URLs, an instance prefix included."""

    def __init__(self, kv: str, engine_info: str) -> None:
        self.kv, self.engine_info = kv.rstrip("/"), engine_info.rstrip("/")
        # `requests.put` opens a connection per call, so a rank never has one to reuse.
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT_SECONDS, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )
        self._places = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        await self._http.aclose()

    async def register(
        self, row: dict[str, Any], *, token: str | None, on_failure: Callable[[int, Answer], None]
    ) -> Answer:
        """PUT one row until it is accepted, five times at most; the last answer."""
        headers = {"X-PD-Generation": token} if token else {}
        for attempt in range(ATTEMPTS):
            answer = await self._send("PUT", f"{self.kv}/route", row, headers)
            if answer.ok:
                return answer
            on_failure(attempt + 1, answer)
            if attempt + 1 < ATTEMPTS:
                await asyncio.sleep(retry_delay(attempt, clock=time.monotonic()))
        return answer

    async def register_weights(self, row: dict[str, Any]) -> Answer:
        """One try, as SGLang has it."""
        return await self._send("PUT", f"{self.engine_info}/register_transfer_engine_info", row)

    async def bind_room(self, room: int, dp: int) -> Answer:
        return await self._send("POST", f"{self.kv}/register_dp_rank", payload.room_row(room, dp))

    async def readiness(self) -> Answer:
        """What a decode hears when it asks for the topology."""
        return await self._send("GET", f"{self.kv}/route?{READY_QUERY}")

    async def _send(
        self, method: str, url: str, row: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        content = payload.encode(row) if row is not None else None
        headers = {**(headers or {}), **({"Content-Type": "application/json"} if row is not None else {})}
        async with self._places:
            try:
                response = await self._http.request(method, url, content=content, headers=headers)
            except httpx.HTTPError as failure:
                return Answer(None, _root_cause(failure))
        return Answer(response.status_code, response.text[:300])


def _root_cause(failure: BaseException) -> str:
    """What the system said, below the wrappers that say "all attempts failed"."""
    while deeper := failure.__cause__ or failure.__context__:
        failure = deeper
    return str(failure) or type(failure).__name__
