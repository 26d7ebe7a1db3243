"""Which ranks of a decode take KV from one rank of a prefill, for the sizes that decodes usually have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .disagreement import Prefill
from .errors import Refused
from .rankmap import DecodeRank, map_ranks
from .topology import Slot

MOST_DECODE_TP = 512
"""A larger decode is not worked out: it would be asked rank by rank."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Decodes with `tp` ranks: those of them that connect here. `dummy`: with MLA another rank sends in its place."""

    tp: int
    ranks: tuple[int, ...]
    dummy: bool = False


def reached_by(slot: Slot, prefill: Prefill) -> Iterator[Reached]:
    """Decodes of half its TP, the same, and twice as much, each without CP and with PP 1 or as the prefill.

    >>> from .topology import SharedFacts, Topology
    >>> at_rest = Prefill(Topology(1, 1, 4, 1), SharedFacts(64, "auto"))
    >>> [(each.tp, each.ranks, each.dummy) for each in reached_by(Slot(0, 0, 3, 0), at_rest)]
    [(2, (1,), True), (4, (3,), False), (8, (6, 7), False)]
    """
    own = prefill.topology.tp
    for tp in sorted({max(1, own // 2), own, own * 2}):
        if tp <= MOST_DECODE_TP:
            yield _reached(slot, prefill, tp)


def _reached(slot: Slot, prefill: Prefill, tp: int) -> Reached:
    found: list[int] = []
    dummy = False
    for rank in range(tp):
        try:
            mapping = map_ranks(DecodeRank(tp_size=tp, engine_rank=rank), prefill.sizes)
        except Refused:
            continue
        if slot.tp in mapping.target_tp_ranks and slot.cp in mapping.target_cp_ranks:
            found.append(rank)
            dummy = dummy or (len(mapping.target_tp_ranks) > 1 and slot.tp != min(mapping.target_tp_ranks))
    return Reached(tp, tuple(found), dummy)
