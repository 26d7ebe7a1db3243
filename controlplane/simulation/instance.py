"""A simulated prefill instance: its ranks come up, register, die and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from controlplane.domain.addresses import bracketed
from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation.listener import Listener
from controlplane.simulation.payload import route_row, weights_row
from controlplane.simulation.report import Reporter
from controlplane.simulation.shape import Selector, Shape
from controlplane.simulation.wire import Answer, Wire

READY_POLL_SECONDS = 0.2


@dataclass(slots=True)
class Rank:
    """One simulated process: alive while it has a listener."""

    slot: Slot
    listener: Listener | None = None
    port: int = 0
    heard: Answer | None = None

    @property
    def alive(self) -> bool:
        return self.listener is not None

    @property
    def registered(self) -> bool:
        return self.heard is not None and self.heard.ok


@dataclass(frozen=True, slots=True)
class Plan:
    """What every rank of the instance has in common."""

    shape: Shape
    facts: SharedFacts
    host: str
    http_port: int = 30_000
    token: str | None = None
    tensors: int = 0


class Instance:
    """Ranks of one launch at a time. `open_listener` is how a rank gets its address."""

    def __init__(
        self,
        plan: Plan,
        slots: Iterable[Slot],
        *,
        wire: Wire,
        open_listener: Callable[[], Listener],
        reporter: Reporter,
    ) -> None:
        self.plan, self.ranks = plan, [Rank(slot) for slot in slots]
        self._wire, self._open, self._reporter = wire, open_listener, reporter
        self._launch = 1
        self._registering: dict[Slot, asyncio.Task[None]] = {}

    @property
    def token(self) -> str | None:
        """The launch token; every restart of the whole instance is another launch."""
        if self.plan.token is None or self._launch == 1:
            return self.plan.token
        return f"{self.plan.token}-{self._launch}"

    async def start(self) -> None:
        """Bring every rank up and register it; returns when each was accepted or gave up."""
        await self._bring_up(self.ranks)

    def kill(self, selector: Selector) -> list[Rank]:
        """End the chosen living ranks as `kill -9` would: the port refuses, nobody says goodbye."""
        killed = [rank for rank in self.ranks if rank.alive and selector.matches(rank.slot)]
        for rank in killed:
            registering = self._registering.pop(rank.slot, None)
            if registering:
                registering.cancel()
            assert rank.listener is not None
            rank.listener.close()
            rank.listener = None
            self._reporter.tell("killed", f"{rank.slot} killed", detail=True, **self._facts(rank))
        self._reporter.tell("kill", f"{len(killed)} of {len(self.ranks)} ranks killed", ranks=len(killed))
        return killed

    async def restart(self, selector: Selector | None = None) -> None:
        """Kill the chosen ranks and bring them up on new ports; without a selector all, as a new launch."""
        if selector is None:
            self._launch += 1
        chosen = [rank for rank in self.ranks if selector is None or selector.matches(rank.slot)]
        self.kill(selector or Selector())
        await self._bring_up(chosen)

    async def wait_ready(self, *, within: float) -> Answer:
        """Ask as a decode does until the directory opens; the last answer."""
        deadline = asyncio.get_running_loop().time() + within
        while True:
            answer = await self._wire.readiness()
            if answer.ok:
                self._reporter.tell("ready", "the directory answers: every rank is there")
                return answer
            if asyncio.get_running_loop().time() >= deadline:
                self._reporter.tell("not_ready", f"not ready: {answer}", status=answer.status, text=answer.text)
                return answer
            await asyncio.sleep(READY_POLL_SECONDS)

    async def tell_status(self) -> None:
        """One line a rank, and what the directory says."""
        for rank in self.ranks:
            state = "up" if rank.alive else "killed"
            heard = str(rank.heard) if rank.heard else "not answered yet"
            self._reporter.tell(
                "status",
                f"{rank.slot}  {bracketed(self.plan.host)}:{rank.port}  {state}  registration: {heard}",
                alive=rank.alive,
                registered=rank.registered,
                **self._facts(rank),
            )
        answer = await self._wire.readiness()
        said = "ready" if answer.ok else str(answer)
        self._reporter.tell("directory", f"directory: {said}", status=answer.status, text=answer.text)

    def close(self) -> None:
        """Everything ends, unsaid."""
        for task in self._registering.values():
            task.cancel()
        for rank in self.ranks:
            if rank.listener:
                rank.listener.close()
                rank.listener = None

    async def _bring_up(self, ranks: list[Rank]) -> None:
        for rank in ranks:
            rank.listener, rank.heard = self._open(), None
            rank.port = rank.listener.port
            address = f"{bracketed(self.plan.host)}:{rank.port}"
            self._reporter.tell("up", f"{rank.slot} is up at {address}", detail=True, **self._facts(rank))
        tasks = {rank.slot: asyncio.create_task(self._register(rank)) for rank in ranks}
        self._registering.update(tasks)
        outcomes = await asyncio.gather(*tasks.values(), return_exceptions=True)
        for failure in outcomes:
            if isinstance(failure, Exception):
                raise failure
        count = sum(rank.registered for rank in ranks)
        self._reporter.tell(
            "registered_all", f"{count} of {len(ranks)} ranks registered", registered=count, ranks=len(ranks)
        )

    async def _register(self, rank: Rank) -> None:
        plan = self.plan
        # Weights come first, as in SGLang: the model is loaded before the KV manager is made.
        if plan.tensors:
            session = f"{bracketed(plan.host)}:{rank.port}"
            row = weights_row(plan.shape, rank.slot, session_id=session, tensors=plan.tensors)
            answer = await self._wire.register_weights(row)
            self._tell_answer(rank, "weights", "weights registered", answer)
        row = route_row(plan.shape, rank.slot, plan.facts, ip=plan.host, port=rank.port, http_port=plan.http_port)
        rank.heard = await self._wire.register(
            row,
            token=self.token,
            on_failure=lambda attempt, answer: self._tell_failure(rank, attempt, answer),
        )
        self._tell_answer(rank, "registered", "registered", rank.heard)
        self._registering.pop(rank.slot, None)

    def _tell_failure(self, rank: Rank, attempt: int, answer: Answer) -> None:
        self._reporter.tell(
            "attempt_failed",
            f"{rank.slot} attempt {attempt} failed: {answer}",
            attempt=attempt,
            status=answer.status,
            text=answer.text,
            **self._facts(rank),
        )

    def _tell_answer(self, rank: Rank, what: str, sentence: str, answer: Answer) -> None:
        if answer.ok:
            self._reporter.tell(what, f"{rank.slot} {sentence}", detail=True, **self._facts(rank))
            return
        self._reporter.tell(
            "gave_up",
            f"{rank.slot} gave up, not {sentence}: {answer}; it serves unregistered",
            of=what,
            status=answer.status,
            text=answer.text,
            **self._facts(rank),
        )

    def _facts(self, rank: Rank) -> dict[str, Any]:
        return {"slot": str(rank.slot), "host": self.plan.host, "port": rank.port}
