"""Ranks of one DP group that compute together inside one process: a thread each, sums and hand-overs by shared memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

PATIENCE_SECONDS = 10.0
"""For a rank that does not come: it failed, and so do those who wait for it."""


class Broken(RuntimeError):
    """Another rank of the group failed or did not come in time; what was computed is worth nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank is in its group."""

    tp: int
    pp: int


class Group:
    """The `tp_size * pp_size` ranks of one DP group. `run` lets each do its part, and raises what the first of them raised."""

    def __init__(self, tp_size: int, pp_size: int, *, patience: float = PATIENCE_SECONDS) -> None:
        self.places = [Place(tp, pp) for pp in range(pp_size) for tp in range(tp_size)]
        self.tp_size, self.pp_size = tp_size, pp_size
        self._patience = patience
        self._fresh()

    def _fresh(self) -> None:
        self._sums = [_Sum(self.tp_size, self._patience) for _ in range(self.pp_size)]
        self._lines: dict[tuple[str, int, int], queue.Queue[Any]] = {}
        self._lock = threading.Lock()
        self._broken = threading.Event()

    def reduce(self, at: Place, x: Tensor) -> Tensor:
        """The sum of what the TP ranks of this stage bring, in the order of their ranks. Raises Broken."""
        return x if self.tp_size == 1 else self._sums[at.pp].add(at.tp, x)

    def send(self, word: str, to: Place, value: Any) -> None:
        self._line(word, to).put(value)

    def receive(self, word: str, at: Place) -> Any:
        """What was sent to this rank under this word, in order. Raises Broken."""
        try:
            value = self._line(word, at).get(timeout=self._patience)
        except queue.Empty:
            raise Broken(f"no {word} came to tp{at.tp} pp{at.pp} within {self._patience:g} s") from None
        if self._broken.is_set():
            raise Broken("another rank of the group failed")
        return value

    def run(self, part: Callable[[Place], Any]) -> dict[Place, Any]:
        """`part` of every rank at once, and what each gave. Raises what the first of them raised."""
        if len(self.places) == 1:
            return {self.places[0]: part(self.places[0])}
        self._fresh()
        done: dict[Place, Any] = {}
        failures: list[BaseException] = []

        def work(at: Place) -> None:
            try:
                done[at] = part(at)
            except BaseException as failure:
                failures.append(failure)
                self._break()

        threads = [threading.Thread(target=work, args=(at,), name=f"tp{at.tp}.pp{at.pp}") for at in self.places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise next((one for one in failures if not isinstance(one, Broken)), failures[0])
        return done

    def _line(self, word: str, to: Place) -> queue.Queue[Any]:
        with self._lock:
            return self._lines.setdefault((word, to.tp, to.pp), queue.Queue())

    def _break(self) -> None:
        """Whoever waits learns at once."""
        self._broken.set()
        for one in self._sums:
            one.barrier.abort()
        with self._lock:
            for line in self._lines.values():
                line.put(None)


class _Sum:
    def __init__(self, size: int, patience: float) -> None:
        self.barrier = threading.Barrier(size, timeout=patience)
        self._brought: list[Tensor | None] = [None] * size

    def add(self, rank: int, x: Tensor) -> Tensor:
        try:
            self._brought[rank] = x
            self.barrier.wait()
            total = sum(one for one in self._brought if one is not None)
            # Nobody may bring the next one before all have read this.
            self.barrier.wait()
        except threading.BrokenBarrierError:
            raise Broken("a rank of this TP group failed or did not come") from None
        assert isinstance(total, Tensor)
        return total
