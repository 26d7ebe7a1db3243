"""Which ranks of one launch each rank of a decode takes its KV from, and what stays undecided about the pair. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .compatibility import check
from .decodes import SWITCHES, UNKNOWN, Decode
from .disagreement import Finding, Prefill
from .errors import Refused
from .rankmap import RankMapping, map_ranks
from .topology import Slot, Topology

MOST_TARGETS = 50_000
"""Targets in one answer: ranks of the decode times DP groups times the ranks that each of them connects to."""


@dataclass(frozen=True, slots=True)
class MappedRank:
    """Where one rank of the decode connects, in each DP group alike."""

    engine_rank: int
    pp_rank: int
    mapping: RankMapping

    @property
    def targets(self) -> int:
        """How many ranks it connects to in each DP group."""
        where = self.mapping
        return len(where.target_cp_ranks) * len(where.target_tp_ranks) * len(where.target_pp_ranks)

    def slots(self, dp: int) -> Iterator[Slot]:
        """The ranks to connect to in one DP group, in the order in which SGLang does: higher pipeline stages first."""
        for cp in self.mapping.target_cp_ranks:
            for tp in self.mapping.target_tp_ranks:
                for pp in reversed(self.mapping.target_pp_ranks):
                    yield Slot(dp, cp, tp, pp)

    def is_dummy(self, slot: Slot, *, mla: bool) -> bool:
        """Told, but sends nothing: with MLA the first of a run sends for all."""
        return mla and self.mapping.target_tp_rank is not None and slot.tp != self.mapping.target_tp_rank


@dataclass(frozen=True, slots=True)
class Plan:
    """DP groups that were asked about, the ranks of the decode, and findings that nobody can decide here."""

    groups: tuple[int, ...]
    ranks: tuple[MappedRank, ...]
    open: tuple[Finding, ...]

    def slots(self) -> list[Slot]:
        """Every rank that is named, once, in slot order."""
        return sorted({slot for group in self.groups for rank in self.ranks for slot in rank.slots(group)})


def plan(
    decode: Decode,
    prefill: Prefill,
    launch: int,
    *,
    engine_rank: int | None = None,
    pp_rank: int = 0,
    dp: int | None = None,
) -> Plan:
    """For one rank of the decode or, without `engine_rank`, for all of them; for one DP group of the prefill, or all.

    Raises Refused: conflict (the pair cannot work), malformed (what was said of the decode does not say enough).
    """
    groups = _groups(prefill.topology, launch, dp)
    if decode.tp_size is UNKNOWN:
        raise Refused("tp_size is needed: which ranks a decode takes KV from depends on it", code="malformed")
    findings = check(decode, prefill)
    wanted = [(engine_rank, pp_rank)] if engine_rank is not None else _all_ranks(decode)
    ranks = tuple(_mapped(decode, prefill, rank, stage) for rank, stage in wanted)
    _check_size(ranks, groups)
    return Plan(groups, ranks, findings)


def tag(name: str, launch: int, token: str | None, ranks: Sequence[MappedRank], addresses: Mapping[Slot, str]) -> str:
    """The same for as long as the launch, its token and every address of the answer are the same."""
    said = "\n".join(f"{slot} {where}" for slot, where in addresses.items())
    digest = hashlib.sha256(f"{name}\n{token}\n{tuple(ranks)}\n{said}".encode()).hexdigest()
    return f"{launch}-{digest[:16]}"


def _groups(topology: Topology, launch: int, dp: int | None) -> tuple[int, ...]:
    if dp is None:
        return tuple(range(topology.dp))
    if not 0 <= dp < topology.dp:
        raise Refused(f"dp {dp} does not exist: launch {launch} has {topology.dp} DP groups", code="malformed")
    return (dp,)


def _all_ranks(decode: Decode) -> list[tuple[int, int]]:
    stages = decode.pp_size if isinstance(decode.pp_size, int) else 1
    assert isinstance(decode.tp_size, int)
    if stages * decode.tp_size > MOST_TARGETS:
        raise Refused(
            f"a decode of {stages * decode.tp_size} ranks is asked for one by one: name engine_rank", code="malformed"
        )
    return [(rank, stage) for stage in range(stages) for rank in range(decode.tp_size)]


def _check_size(ranks: tuple[MappedRank, ...], groups: tuple[int, ...]) -> None:
    """A decode may call itself as large as it likes; what is written for it may not become so."""
    if sum(rank.targets for rank in ranks) * len(groups) > MOST_TARGETS:
        raise Refused(
            f"{len(ranks)} ranks of the decode and {len(groups)} DP groups are more than one answer holds: name engine_rank"
            " or dp",
            code="malformed",
        )


def _open(decode: Decode, switch: str) -> bool:
    """Nobody said; and an MLA model is not a hybrid one as well."""
    return getattr(decode, switch) is UNKNOWN and not (switch == "is_hybrid_mla" and decode.is_mla is True)


def _mapped(decode: Decode, prefill: Prefill, engine_rank: int, pp_rank: int) -> MappedRank:
    try:
        mapping = map_ranks(decode.rank(engine_rank, pp_rank), prefill.sizes)
        for switch in SWITCHES:
            if _open(decode, switch):
                other = replace(decode, **{switch: True})  # type: ignore[arg-type]
                if map_ranks(other.rank(engine_rank, pp_rank), prefill.sizes) != mapping:
                    raise Refused(
                        f"{switch} is needed: with {prefill.topology} which ranks send depends on it", code="malformed"
                    )
    except Refused as refused:
        # What is wrong with the pair was found out before: this is about the rank that was asked for.
        raise Refused(refused.sentence, code="malformed") from None
    return MappedRank(engine_rank, pp_rank, mapping)
