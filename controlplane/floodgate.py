"""How often one source may say one kind of thing in the logs, and how much it was kept from saying."""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Verdict:
    admitted: bool
    suppressed: int = 0  # events of this kind left out since the last one that was admitted


@dataclass(slots=True)
class _Window:
    opened_at: float
    admitted: int = 0
    suppressed: int = 0


class FloodGate:
    """
    Lets `per_source` events of a (source, kind) and `per_kind` of a kind through in each window.

    The second limit is for a flood that comes from many addresses. Memory is bounded by `remembered` entries:
    the oldest is forgotten first, and its count is handed to the next event of the same kind.
    """

    suppressed = 0
    """How much all gates of this process have kept from being said; it only grows."""

    def __init__(
        self,
        *,
        per_source: int = 5,
        per_kind: int = 100,
        window_seconds: float = 10.0,
        remembered: int = 4096,
    ) -> None:
        self._per_source = per_source
        self._per_kind = per_kind
        self._window_seconds = window_seconds
        self._remembered = remembered
        self._sources: OrderedDict[tuple[str, str], _Window] = OrderedDict()
        self._kinds: OrderedDict[str, _Window] = OrderedDict()
        self._owed: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sources)

    def admit(self, source: str, kind: str, *, now: float) -> Verdict:
        # Both are keys in memory here, and both may be as long as a worker likes.
        source, kind = source[:100], kind[:200]
        mine = self._window(self._sources, (source, kind), now)
        everyone = self._window(self._kinds, kind, now)
        self._forget()
        if mine.admitted >= self._per_source or everyone.admitted >= self._per_kind:
            mine.suppressed += 1
            FloodGate.suppressed += 1
            return Verdict(admitted=False)
        mine.admitted += 1
        everyone.admitted += 1
        suppressed, mine.suppressed = mine.suppressed + self._owed.pop(kind, 0), 0
        return Verdict(admitted=True, suppressed=suppressed)

    def _window(self, table: OrderedDict[Key, _Window], key: Key, now: float) -> _Window:
        window = table.get(key)
        if window is None:
            window = table[key] = _Window(opened_at=now)
        elif now - window.opened_at >= self._window_seconds:
            window.opened_at, window.admitted = now, 0
            table.move_to_end(key)
        return window

    def _forget(self) -> None:
        while len(self._sources) > self._remembered:
            (_, kind), window = self._sources.popitem(last=False)
            if window.suppressed and (kind in self._owed or len(self._owed) < self._remembered):
                self._owed[kind] += window.suppressed
        while len(self._kinds) > self._remembered:
            self._kinds.popitem(last=False)
