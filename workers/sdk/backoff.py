"""How long to wait before the next try: longer each time, capped, and never two workers in step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds before the first repetition, and at most. Each pause is drawn from the upper half of its range.

    >>> import random
    >>> [round(pause) for pause, _ in zip(Backoff(1, 8).pauses(random.Random(1)), range(6))]
    [1, 2, 4, 5, 6, 6]
    """

    first: float = 0.5
    most: float = 10.0

    def pauses(self, dice: random.Random | None = None) -> Iterator[float]:
        """Without end. `dice` draws the jitter."""
        dice = dice or random.Random()
        limit = self.first
        while True:
            yield limit * dice.uniform(0.5, 1.0)
            limit = min(limit * 2, self.most)
