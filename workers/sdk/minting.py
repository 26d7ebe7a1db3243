"""New rooms: 63-bit, never 0, never twice, and in the DP group that is wanted when a prefill follows the room."""

from __future__ import annotations

import random
import threading

from controlplane.domain.rooms import MAX_DP

from .errors import WorkerError

BLOCK_BITS = 16
BLOCKS = 2 ** (63 - BLOCK_BITS)


class Mint:
    """Draws rooms for one process. Any number of threads may share it.

    Each room lies in a block of 65,536 numbers of its own, so that no two are ever equal, whatever DP sizes they were drawn
    for; the order of the blocks is a walk over all of them (a full-period congruence) with a random start and step, so that
    processes do not follow one another.

    >>> mint = Mint(random.Random(7))
    >>> [mint.room(dp_size=4, dp=3) % 4 for _ in range(3)]
    [3, 3, 3]
    """

    def __init__(self, dice: random.Random | None = None) -> None:
        self._dice = dice or random.SystemRandom()
        self._lock = threading.Lock()
        self._block = self._dice.randrange(BLOCKS)
        # An odd step visits every block once before any of them twice.
        self._step = self._dice.randrange(BLOCKS // 2) * 2 + 1

    def room(self, *, dp_size: int = 1, dp: int | None = None) -> int:
        """A room for DP rank `dp` of `dp_size` (`room % dp_size == dp`); any of them without `dp`."""
        if not 1 <= dp_size <= MAX_DP + 1:
            raise WorkerError(f"dp_size must be between 1 and {MAX_DP + 1}, not {dp_size}")
        if dp is not None and not 0 <= dp < dp_size:
            raise WorkerError(f"dp {dp} does not exist in a size of {dp_size}")
        with self._lock:
            self._block = (self._block + self._step) % BLOCKS or self._step
            first = self._block << BLOCK_BITS
            inside = self._dice.randrange(2**BLOCK_BITS)
        if dp is None:
            return first + inside
        # The first number of the block that fits, and then one of those that are a multiple of the size further.
        start = (dp - first) % dp_size
        return first + start + (inside - start) // dp_size * dp_size if inside >= start else first + start
