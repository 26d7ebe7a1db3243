"""How far a pull is, as a line for people: bytes, rate of late, time left, and from whom."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Progress:
    """`per_second`: of the last seconds; None before anything came. `found`: bytes that were there from an earlier try."""

    rank: int
    done: int
    total: int
    per_second: float | None
    seed: str
    found: int = 0

    @property
    def seconds_left(self) -> float | None:
        return (self.total - self.done) / self.per_second if self.per_second else None

    @property
    def line(self) -> str:
        """
        >>> Progress(3, 250_000_000, 10**9, 1.5e9, "seed-a").line
        'rank 3: 250 MB of 1.00 GB (25 %), 1.50 GB/s, 1 s left, from seed-a'
        >>> Progress(0, 1000, 1000, None, "seed-b", found=1000).line
        'rank 0: 1.00 kB of 1.00 kB (100 %), 1.00 kB of it were there, from seed-b'
        """
        share = 100 * self.done // self.total if self.total else 100
        said = [f"rank {self.rank}: {size(self.done)} of {size(self.total)} ({share} %)"]
        if self.found:
            said.append(f"{size(self.found)} of it were there")
        if self.per_second is not None:
            said.append(f"{size(self.per_second)}/s")
        if self.seconds_left and self.done < self.total:
            said.append(f"{_time(self.seconds_left)} left")
        return ", ".join([*said, f"from {self.seed}"])


class Meter:
    """Turns amounts and moments into a rate: over the last seconds, so that a seed that died does not count for ever."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, done: int, now: float) -> float | None:
        """
        >>> meter = Meter()
        >>> meter.rate(0, 10.0), meter.rate(100, 11.0), meter.rate(500, 13.0)
        (None, 100.0, 166.66666666666666)
        """
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return (done - before) / (now - then) if now > then and done > before else None


def size(number: float) -> str:
    """
    >>> size(999), size(1234), size(56_700_000), size(8.1e9)
    ('999 B', '1.23 kB', '56.7 MB', '8.10 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            break
        number /= 1000
    digits = 0 if unit == "B" or number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:.{digits}f} {unit}"


def _time(seconds: float) -> str:
    """
    >>> _time(0.2), _time(75), _time(7300)
    ('1 s', '1 min 15 s', '2 h 1 min')
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
