"""Which slots of a launch nobody sits in, said shortly: whole DP groups first, then runs of TP ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

from controlplane.domain.topology import Slot, Topology
from controlplane.queries.wording import slot_name

MOST_RUNS = 6


def gaps(topology: Topology, present: Set[Slot], *, limit: int = MOST_RUNS) -> str:
    """
    >>> there = {slot for slot in Topology(2, 1, 8, 2).slots() if slot.dp == 0 and (slot.pp == 0 or slot.tp < 3)}
    >>> gaps(Topology(2, 1, 8, 2), there)
    'dp0 tp3–7 pp1 (5), all of dp1 (16)'
    >>> gaps(Topology(4, 1, 2, 1), set()), gaps(Topology(1, 1, 2, 1), {Slot(0, 0, 0, 0)})
    ('all of dp0–3 (8)', 'dp0 tp1')
    """
    parts: list[tuple[str, int]] = []
    size = topology.size // topology.dp
    taken = Counter(slot.dp for slot in present)
    for first, last in _runs(dp for dp in range(topology.dp) if not taken[dp]):
        parts.append((f"all of dp{_range(first, last)}", (last - first + 1) * size))
    for dp in range(topology.dp):
        if len(parts) > limit:
            break
        if 0 < taken[dp] < size:
            parts += _within(topology, dp, present)
    missing = topology.size - len(present)
    shown = sorted(parts[:limit], key=_place)
    more = missing - sum(count for _, count in shown)
    said = [f"{name} ({count})" if count > 1 else name for name, count in shown]
    return ", ".join([*said, *([f"and {more} more"] if more else [])])


def _within(topology: Topology, dp: int, present: Set[Slot]) -> Iterator[tuple[str, int]]:
    for cp in range(topology.cp):
        for pp in range(topology.pp):
            free = (tp for tp in range(topology.tp) if Slot(dp, cp, tp, pp) not in present)
            for first, last in _runs(free):
                name = slot_name(Slot(dp, cp, first, pp), topology)
                yield name.replace(f" tp{first}", f" tp{_range(first, last)}"), last - first + 1


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """
    >>> _runs([0, 1, 2, 5])
    [(0, 2), (5, 5)]
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _place(part: tuple[str, int]) -> int:
    """By DP group, whole groups among the others."""
    return int(part[0].removeprefix("all of ").removeprefix("dp").split("–")[0].split(" ")[0])
