"""Steady traffic through a pair of agents, and what became of each single request."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from tests.workers.agent.pairs import Pair

PROMPT = [5, 17, 99, 300, 12, 44, 501, 7, 7, 21]


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, by the wall clock; `problem` is empty when its tokens were right."""

    room: int
    began: float
    ended: float
    problem: str


class Traffic:
    """A request every `pause` seconds, one after the other, from `start` to `stop`."""

    def __init__(self, pair: Pair, instance: str, *, pause: float = 0.2) -> None:
        self.pair, self.instance, self.pause = pair, instance, pause
        self.sent: list[Sent] = []
        self._expected = pair.expected(PROMPT)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"traffic of {instance}")

    def start(self) -> Traffic:
        self._thread.start()
        return self

    def stop(self) -> list[Sent]:
        """When the last one is over."""
        self._ends.set()
        if self._thread.ident is not None:
            self._thread.join(60)
        return self.sent

    @property
    def failed(self) -> list[Sent]:
        return [one for one in self.sent if one.problem]

    def during(self, began: float, ended: float) -> list[Sent]:
        """Those that were on their way within that time, from beginning to end."""
        return [one for one in self.sent if began <= one.began and one.ended <= ended]

    def _run(self) -> None:
        while not self._ends.is_set():
            room, began = self.pair.decode.client.mint.room(), time.time()
            try:
                tokens = self.pair.ask(PROMPT, room=room)
                problem = "" if tokens == self._expected else f"it said {tokens}"
            except Exception as failure:
                problem = str(failure) or repr(failure)
            self.sent.append(Sent(room, began, time.time(), problem))
            self._ends.wait(self.pause)
