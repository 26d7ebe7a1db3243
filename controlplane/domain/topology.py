"""The shape of one launch: four sizes, the slots they span, and the facts all of its ranks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from .errors import Refused

MAX_SIZE = 4096
MAX_SLOTS = 65_536


class Slot(NamedTuple):
    """Where a rank sits. `dp` is the DP group: system DP when there are several engines, else attention DP."""

    dp: int
    cp: int
    tp: int
    pp: int

    def __str__(self) -> str:
        return f"dp{self.dp} cp{self.cp} tp{self.tp} pp{self.pp}"


@dataclass(frozen=True, slots=True)
class Topology:
    """Sizes of the four axes.

    >>> Topology(dp=2, cp=1, tp=4, pp=1).size
    8
    """

    dp: int
    cp: int
    tp: int
    pp: int

    @property
    def size(self) -> int:
        return self.dp * self.cp * self.tp * self.pp

    def slots(self) -> Iterator[Slot]:
        for dp in range(self.dp):
            for cp in range(self.cp):
                for tp in range(self.tp):
                    for pp in range(self.pp):
                        yield Slot(dp, cp, tp, pp)

    def missing(self, present: Mapping[Slot, Any], limit: int = 16) -> list[Slot]:
        """The first `limit` slots that nobody sits in, in slot order."""
        found: list[Slot] = []
        for slot in self.slots():
            if slot not in present:
                found.append(slot)
                if len(found) == limit:
                    break
        return found

    def check(self, slot: Slot) -> None:
        """Refuse sizes below 1, absurd sizes, and a rank outside its own axis."""
        if _fits(self, slot):
            return
        for axis, size, rank in zip(("dp", "cp", "tp", "pp"), self.axes(), slot, strict=True):
            if not 1 <= size <= MAX_SIZE:
                raise Refused(f"{axis} size must be between 1 and {MAX_SIZE}, not {size}", code="malformed")
            if not 0 <= rank < size:
                raise Refused(f"{axis} rank {rank} does not exist in a topology of {size}", code="malformed")
        if self.size > MAX_SLOTS:
            raise Refused(f"a topology of {self.size} slots is larger than {MAX_SLOTS}", code="malformed")

    def axes(self) -> tuple[int, int, int, int]:
        return (self.dp, self.cp, self.tp, self.pp)

    def __str__(self) -> str:
        return f"dp{self.dp}·cp{self.cp}·tp{self.tp}·pp{self.pp}"


def _fits(shape: Topology, slot: Slot) -> bool:
    """The usual case in one expression; check() says in a sentence what does not fit."""
    dp, cp, tp, pp = slot
    return (
        0 <= dp < shape.dp <= MAX_SIZE
        and 0 <= cp < shape.cp <= MAX_SIZE
        and 0 <= tp < shape.tp <= MAX_SIZE
        and 0 <= pp < shape.pp <= MAX_SIZE
        and shape.size <= MAX_SLOTS
    )


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """What every rank of one launch must say alike; names as on SGLang's wire.

    `dsv41_spec_layout` is canonical JSON text or None. `prefill_http_port` is not here: it differs by host.
    """

    page_size: int | None
    kv_cache_dtype: str | None
    kv_layout: str | None = None
    dsv41_spec_layout: str | None = None
    load_balance_method: str = "follow_bootstrap_room"
    enable_dsa_cache_layer_split: bool = False
    enable_kv_cache_sharding: bool = False
    decode_allocation_policy: str = "early"

    @property
    def follow_bootstrap_room(self) -> bool:
        return self.load_balance_method == "follow_bootstrap_room"

    def disagreement(self, other: SharedFacts) -> tuple[str, Any, Any] | None:
        """The first field on which both speak and differ: (field, mine, theirs).

        A null agrees with anything, except for the DSpark layout, which decodes compare null included.
        """
        if self is other or self == other:
            return None
        for name in FACT_NAMES:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine == theirs:
                continue
            if name == "dsv41_spec_layout" or (mine is not None and theirs is not None):
                return name, mine, theirs
        return None

    def filled_from(self, other: SharedFacts) -> SharedFacts:
        """These facts with every null taken from `other`."""
        if self is other or self == other:
            return self
        gaps = {n: getattr(other, n) for n in NULLABLE if getattr(self, n) is None and getattr(other, n) is not None}
        return replace(self, **gaps) if gaps else self


FACT_NAMES = tuple(field.name for field in fields(SharedFacts))
NULLABLE = ("page_size", "kv_cache_dtype", "kv_layout")
