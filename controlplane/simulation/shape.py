"""Which ranks a simulated instance has, and how people point at some of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology

PART = re.compile(r"(dp|cp|tp|pp)(\d+)")


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes a launch is started with. DP is either attention DP or several engines (`system_dp`)."""

    dp: int = 1
    cp: int = 1
    tp: int = 1
    pp: int = 1
    system_dp: int = 1

    def __post_init__(self) -> None:
        if self.dp > 1 and self.system_dp > 1:
            raise Refused("--dp and --system-dp cannot both be above 1: the directory knows one DP axis")
        self.topology.check(Slot(0, 0, 0, 0))

    @property
    def topology(self) -> Topology:
        return Topology(dp=max(self.dp, self.system_dp), cp=self.cp, tp=self.tp, pp=self.pp)

    def world_rank(self, slot: Slot) -> int:
        """Launch order of SGLang: within an engine PP outermost, then DP, CP, TP; then the next engine."""
        dp, engine = (0, slot.dp) if self.system_dp > 1 else (slot.dp, 0)
        within = ((slot.pp * self.dp + dp) * self.cp + slot.cp) * self.tp + slot.tp
        return engine * self.pp * self.dp * self.cp * self.tp + within

    def engine_tp_rank(self, slot: Slot) -> int:
        """What SGLang calls `tp_rank` outside attention: the rank within its pipeline stage."""
        dp = 0 if self.system_dp > 1 else slot.dp
        return (dp * self.cp + slot.cp) * self.tp + slot.tp


@dataclass(frozen=True, slots=True)
class Selector:
    """Some ranks of an instance: those that sit where every named axis says.

    >>> Selector.parse("dp1,tp3").matches(Slot(dp=1, cp=0, tp=3, pp=0))
    True
    """

    dp: int | None = None
    cp: int | None = None
    tp: int | None = None
    pp: int | None = None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """`dp1,tp3`, `dp1 tp3` or `all`; each axis at most once."""
        if text.strip() == "all":
            return cls()
        axes: dict[str, int] = {}
        for word in text.replace(",", " ").split():
            part = PART.fullmatch(word)
            if part is None or part[1] in axes:
                raise Refused(f"{text!a} does not name ranks; say for example dp1,tp3 or all")
            axes[part[1]] = int(part[2])
        if not axes:
            raise Refused("which ranks? say for example dp1,tp3 or all")
        return cls(**axes)

    def matches(self, slot: Slot) -> bool:
        wanted = (self.dp, self.cp, self.tp, self.pp)
        return all(want is None or want == have for want, have in zip(wanted, slot, strict=True))


def chosen(topology: Topology, *, only: Iterable[Selector], skip: Iterable[Selector]) -> list[Slot]:
    """The slots to start: all, or those that one of `only` names, without those that one of `skip` names."""
    only, skip = list(only), list(skip)
    slots = [
        slot
        for slot in topology.slots()
        if (not only or any(selector.matches(slot) for selector in only))
        and not any(selector.matches(slot) for selector in skip)
    ]
    if not slots:
        raise Refused(f"--only and --skip leave none of the {topology.size} ranks")
    return slots
