"""What we say to a real sglang-router, and what it answers: its list of workers, and its breakers from its metrics.

Measured with sglang-router 0.3.2. `POST /workers` and `DELETE /workers/{id}` answer 202 and are done a moment later;
`PUT` is never used: it duplicates the worker, marks a sick one healthy and resets its breaker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from controlplane.domain.errors import Refused
from controlplane.domain.routers import Held, Worker

from .networks import ProbePolicy
from .outgoing import Fetched, fetch
from .urls import canonical

TIMEOUT_SECONDS = 1.0
LIST_LIMIT_BYTES = 8 * 2**20
METRICS_LIMIT_BYTES = 16 * 2**20
METRICS_PATH = "/metrics"
STATES = {0: "closed", 1: "open", 2: "half_open"}
BREAKER = re.compile(r'^smg_worker_cb_state\{[^}]*?worker="([^"]+)"[^}]*\}\s+(-?\d+)(?:\.\d*)?\s*$', re.MULTILINE)


class Misunderstood(Refused):
    """It answers, but not as a router of this kind does."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, code="unreachable")


@dataclass(frozen=True, slots=True)
class RouterClient:
    """One router. `key` goes to nobody else; a worker's own key goes along with that worker only."""

    url: str
    key: str = ""
    metrics_url: str = ""
    allowed: ProbePolicy | None = None

    async def workers(self) -> list[Held]:
        """Whom it holds. Raises Refused when it cannot be asked."""
        answer = await self._ask("GET", "/workers", limit_bytes=LIST_LIMIT_BYTES)
        try:
            listed = msgspec.json.decode(answer.body)["workers"]
            return [_held(item) for item in listed]
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
            raise Misunderstood("it answers, but not with a router's list of workers") from None

    async def add(self, worker: Worker, *, key: str = "") -> None:
        told: dict[str, Any] = {"url": worker.url, "worker_type": worker.kind}
        if worker.port is not None:
            told["bootstrap_port"] = worker.port
        if key:
            told["api_key"] = key
        await self._ask("POST", "/workers", body=msgspec.json.encode(told))

    async def remove(self, worker_id: str) -> None:
        await self._ask("DELETE", f"/workers/{quote(worker_id, safe='')}", accept=(404,))

    async def breakers(self) -> dict[str, str]:
        """State of the breaker by worker URL; workers that are gone have none, and each that is listed has one."""
        url = self.metrics_url if METRICS_PATH in self.metrics_url else f"{self.metrics_url}{METRICS_PATH}"
        answer = await fetch("GET", url, timeout=TIMEOUT_SECONDS, limit_bytes=METRICS_LIMIT_BYTES, allowed=self.allowed)
        if answer.status != 200:
            raise Misunderstood("its metrics cannot be read")
        return dict(read_breakers(answer.body.decode("utf-8", "replace")))

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        limit_bytes: int = 2**16,
        accept: tuple[int, ...] = (),
    ) -> Fetched:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        answer = await fetch(
            method,
            f"{self.url}{path}",
            headers=headers,
            body=body,
            timeout=TIMEOUT_SECONDS,
            limit_bytes=limit_bytes,
            allowed=self.allowed,
        )
        if answer.status in (401, 403):
            known = "does not accept the key that is known here" if self.key else "asks for a key"
            raise Misunderstood(f"it {known}: authentication failed")
        if answer.status not in (200, 201, 202, 204, *accept):
            raise Misunderstood("it does not do what it was asked; is it an sglang-router 0.3?")
        return answer


def read_breakers(metrics: str) -> Iterator[tuple[str, str]]:
    """
    >>> list(read_breakers('smg_worker_cb_state{worker="http://a:1"} 2\\nsmg_worker_cb_state{worker="http://b:1"} -1'))
    [('http://a:1', 'half_open')]
    """
    for url, value in BREAKER.findall(metrics):
        state = STATES.get(int(value[:4]))
        if state is not None:
            yield _one_form(url), state


def _held(item: dict[str, Any]) -> Held:
    port = item.get("bootstrap_port")
    worker = Worker(_one_form(str(item["url"])), str(item["worker_type"]), port if isinstance(port, int) else None)
    healthy = item.get("is_healthy")
    return Held(str(item["id"]), worker, healthy if isinstance(healthy, bool) else None)


def _one_form(url: str) -> str:
    try:
        return canonical(url)
    except Refused:
        return url
