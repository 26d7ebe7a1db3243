"""Room for probes that run at once: who answers soon never waits for those who do not answer at all."""

from __future__ import annotations

import asyncio

QUICK_SECONDS = 0.1
"""Who is there answers sooner, by far."""


class Places:
    """`quick` places; a probe that takes longer gives its place back and goes on in one of `patient` others, if one is free.

    Without them a rack that is cut off, whose every address takes a whole time-out, would hold all places, and the
    deaths of others would be seen late.
    """

    def __init__(self, quick: int, patient: int) -> None:
        self._quick = asyncio.Semaphore(quick)
        self._patient = patient

    @classmethod
    def of(cls, at_once: int) -> Places:
        """So many sockets in all; a quarter of them for those who answer."""
        return cls(max(1, at_once // 4), at_once - at_once // 4)

    async def take(self) -> Place:
        await self._quick.acquire()
        return Place(self)

    def free(self) -> None:
        self._quick.release()

    def move(self) -> bool:
        """To the patient ones, if there is room among them."""
        if not self._patient:
            return False
        self._patient -= 1
        self._quick.release()
        return True

    def leave(self) -> None:
        self._patient += 1


class Place:
    """One place that was taken: give it back."""

    __slots__ = ("_moved", "_places", "_timer")

    def __init__(self, places: Places) -> None:
        self._places = places
        self._moved = False
        self._timer = asyncio.get_running_loop().call_later(QUICK_SECONDS, self._move)

    def _move(self) -> None:
        self._moved = self._places.move()

    def give_back(self) -> None:
        self._timer.cancel()
        if self._moved:
            self._places.leave()
        else:
            self._places.free()
