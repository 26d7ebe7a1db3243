"""Agents as processes of their own, `python -m workers.agent`, and requests to them as a router sends them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.processes import Bootstrap, Child, clean_env
from workers.sdk import Mint

READY = r"^(prefill|decode) ready (http://\S+) ranks=(\d+)$"
MINT = Mint()


class Agent:
    """One process; `url` is known when it is ready."""

    def __init__(self, log: Path, *words: str) -> None:
        self.words, self._log = words, log
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "workers.agent", *self.words]
        self.child = Child(command, env=clean_env(), log=self._log)

    def ready(self) -> Agent:
        self.url = self.child.wait_for_line(READY, timeout=60)[2]
        return self

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def post(self, path: str, body: Any, *, timeout: float = 60) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=timeout)

    def open_rooms(self) -> int:
        return sum(load["num_running_reqs"] for load in self.get("/v1/loads").json()["loads"])


class Fleet:
    """A prefill, a decode, and threads for the legs of requests."""

    def __init__(self, directory: Bootstrap, prefill: Agent, decode: Agent) -> None:
        self.directory, self.prefill, self.decode = directory, prefill, decode
        self.threads = ThreadPoolExecutor(8)

    def body(self, prompt: list[int], room: int, count: int = 8, **more: Any) -> dict[str, Any]:
        where = {"bootstrap_host": self.directory.host, "bootstrap_port": self.directory.kv_port}
        return {
            "input_ids": prompt,
            "bootstrap_room": room,
            "sampling_params": {"max_new_tokens": count},
            **where,
            **more,
        }

    def leg(self, agent: Agent, body: dict[str, Any], *, timeout: float = 60) -> Future[httpx.Response]:
        return self.threads.submit(agent.post, "/generate", body, timeout=timeout)

    def ask(self, prompt: list[int], count: int = 8) -> httpx.Response:
        """Both legs; what the decode says. The prefill's must agree."""
        body = self.body(prompt, MINT.room(), count)
        leg = self.leg(self.prefill, body)
        said = self.decode.post("/generate", body)
        if said.status_code == 200:
            assert leg.result(60).json()["output_ids"] == said.json()["output_ids"][:1]
        return said


@contextmanager
def fleet(
    directory: Bootstrap, folder: Path, *, prefill: str = "", decode: str = "", both: str = ""
) -> Iterator[Fleet]:
    kv = f"{directory.host}:{directory.kv_port}"
    first = Agent(folder / "prefill.log", "prefill", "--kv", kv, *prefill.split(), *both.split())
    second = Agent(folder / "decode.log", "decode", *decode.split(), *both.split())
    made = Fleet(directory, first, second)
    try:
        first.ready()
        second.ready()
        yield made
    finally:
        made.threads.shutdown(wait=False)
        for agent in (first, second):
            agent.child.kill9()


def sentence(response: httpx.Response) -> str:
    """What the agent says is wrong; a test fails when it is no sentence of its own."""
    message = response.json()["error"]["message"]
    assert re.match(r"[\w\x60-].*", message)
    return str(message)
