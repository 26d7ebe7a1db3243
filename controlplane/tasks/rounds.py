"""How many rounds of one task a process does at once: slow ones must not take every thread of the worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

AT_ONCE = 3
"""Rounds begin every second, and take two when somebody does not answer: meanwhile the next ones go on with the others."""


class Rounds:
    """The places of one task. A round that finds none is left out: the next is due in a moment."""

    def __init__(self) -> None:
        self._places = threading.Semaphore(AT_ONCE)

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Whether there is a place; it is given back when the block ends."""
        taken = self._places.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._places.release()
