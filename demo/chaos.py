"""Acts in an order that follows from the seed: said beforehand, seen on the pages, mended, and seen to be well again."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from .acts import MADE, Act
from .api import Away
from .crew import Ended
from .stage import Stage, Unseen

SEEN_SECONDS = 60.0
MENDED_SECONDS = 90.0
LOOK_AT_IT_SECONDS = 5.0
"""So long it stays as it was seen, for whoever looks."""
BETWEEN_SECONDS = 4.0


@dataclass
class Tale:
    """What came of it: acts that were shown and healed, and sentences about those that were not."""

    healed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


async def let_look(key: str, act: Act) -> None:
    await asyncio.sleep(LOOK_AT_IT_SECONDS)


class Chaos:
    """`linger`: what happens between that something is seen and that it is mended."""

    def __init__(
        self,
        stage: Stage,
        *,
        acts: Sequence[str],
        seed: int,
        say: Callable[[str], None],
        linger: Callable[[str, Act], Awaitable[None]] = let_look,
    ) -> None:
        self.tale = Tale()
        self._stage, self._acts, self._dice, self._say, self._linger = stage, acts, random.Random(seed), say, linger

    def order(self) -> list[str]:
        """The next round."""
        return self._dice.sample(self._acts, len(self._acts))

    async def run(self, *, seconds: float, rounds: int | None = None) -> Tale:
        """Round after round (None: without a limit), until so many seconds are over; what is under way then is mended first."""
        end = time.monotonic() + seconds
        for _ in itertools.count() if rounds is None else range(rounds):
            for key in self.order():
                if time.monotonic() >= end:
                    return self.tale
                await self.play(key)
                await asyncio.sleep(BETWEEN_SECONDS)
        return self.tale

    async def play(self, key: str) -> None:
        """One act, to its end."""
        act, began = MADE[key](self._stage), time.monotonic()
        self._say(f"now    {act.what}\n       look at {self._stage.plan.web}{act.look}")
        look = act.look
        try:
            await act.begin()
            seen = await self._stage.until(act.seen, within=SEEN_SECONDS)
            more = "" if act.look == look else f"\n       look at {self._stage.plan.web}{act.look}"
            self._say(f"{_after(began)} seen: {seen}{more}")
            await self._linger(key, act)
        except (Unseen, Away, Ended) as problem:
            self._wrong(key, problem)
        if await self._mend(key, act, began):
            self.tale.healed.append(key)

    async def _mend(self, key: str, act: Act, began: float) -> bool:
        try:
            await act.mend()
            mended = await self._stage.until(act.mended, within=MENDED_SECONDS)
        except (Unseen, Away, Ended) as problem:
            self._wrong(key, problem)
            return False
        self._say(f"{_after(began)} well: {mended}")
        return True

    def _wrong(self, key: str, problem: Exception) -> None:
        self.tale.wrong.append(f"{key}: {problem}")
        self._say(f"wrong  {key}: {problem}")


def _after(began: float) -> str:
    return f"{time.monotonic() - began:4.1f} s"
