"""A pair of agents in this process, on a real bootstrap server, and both legs of a request as a router sends them."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.processes import Bootstrap
from workers.agent.asking import Request
from workers.agent.decode import Decode
from workers.agent.groups import config_of
from workers.agent.prefill import Prefill
from workers.agent.running import oracle
from workers.agent.settings import Settings
from workers.sdk import WorkerError, requested_place

COUNT = 10


class Pair:
    def __init__(self, bootstrap: Bootstrap, prefill: Prefill, decode: Decode) -> None:
        self.prefill, self.decode = prefill, decode
        self.place = requested_place(bootstrap.host, bootstrap.kv_port)

    def request(self, prompt: list[int], *, room: int | None = None, count: int = COUNT) -> Request:
        room = self.decode.client.mint.room() if room is None else room
        return Request(tuple(prompt), room, count, self.place, f"r{room}", False)

    def ask(self, prompt: list[int], **more: Any) -> list[int]:
        """The tokens; raises what either leg raised."""
        request = self.request(prompt, **more)
        leg = Leg(self.prefill.serve, request)
        try:
            return list(self.decode.serve(request)["output_ids"])
        finally:
            leg.end()

    def expected(self, prompt: list[int], count: int = COUNT) -> list[int]:
        return oracle(config_of(self.decode.settings), prompt, count)


class Leg:
    """One side of a request on a thread of its own; `end` gives its answer, or raises what it raised."""

    def __init__(self, serve: Callable[[Request], dict[str, Any]], request: Request) -> None:
        self.answer: dict[str, Any] | None = None
        self.problem: WorkerError | None = None
        self._thread = threading.Thread(target=self._run, args=(serve, request))
        self._thread.start()

    def _run(self, serve: Callable[[Request], dict[str, Any]], request: Request) -> None:
        try:
            self.answer = serve(request)
        except WorkerError as problem:
            self.problem = problem

    def end(self, timeout: float = 60) -> dict[str, Any]:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the leg does not end"
        if self.problem is not None:
            raise self.problem
        assert self.answer is not None
        return self.answer


@contextmanager
def pair(bootstrap: Bootstrap, *, prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None,
         **both: Any) -> Iterator[Pair]:  # fmt: skip
    both = {"timeout": 30.0, **both}
    token = secrets.token_hex(8)
    kv = f"{bootstrap.host}:{bootstrap.kv_port}"
    first = Prefill(Settings(mode="prefill", kv=kv, launch_token=token, **both, **(prefill or {})))
    try:
        first.register(30000)
        assert first._standing is not None
        first._standing.wait(within=30)
        second = Decode(Settings(mode="decode", **both, **(decode or {})))
        try:
            yield Pair(bootstrap, first, second)
        finally:
            second.close()
    finally:
        first.close()


def prompts(count: int, *, seed: int, longest: int = 30) -> list[list[int]]:
    dice = random.Random(seed)
    return [[dice.randrange(512) for _ in range(dice.randint(1, longest))] for _ in range(count)]
