"""How long one round of probes takes: a second for a small fleet, longer for a large one, so that the wire does not feel it."""

from __future__ import annotations

EVERY_SECOND_UP_TO = 500
LARGE = 10_000
LARGE_ROUNDS = 6.5
"""What a round of LARGE addresses takes, in intervals; with the last answers it is over within 8."""

TICK_SECONDS = 0.02


def round_seconds(count: int, interval: float) -> float:
    """Seconds over which `count` probes are spread, where a small fleet is asked every `interval`.

    Past LARGE the pace stays what it is, and the round grows: detection gets slower before anything else does.

    >>> [round_seconds(count, 1.0) for count in (0, 500, 10_000, 20_000)]
    [1.0, 1.0, 6.5, 13.0]
    """
    if count > LARGE:
        return interval * LARGE_ROUNDS * count / LARGE
    beyond = max(0, count - EVERY_SECOND_UP_TO) / (LARGE - EVERY_SECOND_UP_TO)
    return interval * (1.0 + (LARGE_ROUNDS - 1.0) * beyond)


def at_a_time(count: int, seconds: float) -> int:
    """How many to ask every TICK_SECONDS, so that `count` are asked within `seconds`.

    >>> at_a_time(0, 1.0), at_a_time(8, 1.0), at_a_time(10_000, 6.5)
    (1, 1, 31)
    """
    ticks = max(1, int(seconds / TICK_SECONDS))
    return max(1, -(-count // ticks))
