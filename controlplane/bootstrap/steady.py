"""A clock for how long things last: it goes on evenly, whatever the host's clock is set to meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable


class Steady:
    """Seconds since the epoch, as the host had it when this was made. What is stored and shown goes by the host's own clock."""

    def __init__(self, *, wall: Callable[[], float] = time.time, even: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._even = wall, even
        self._ahead = wall() - even()

    def __call__(self) -> float:
        return self._even() + self._ahead

    def ms(self) -> int:
        return round(self() * 1000)

    @property
    def set_by(self) -> float:
        """By how many seconds the host's clock was set forward since; negative: back."""
        return self._wall() - self()
