"""All that a decode needs of a prefill in one answer: which ranks it takes KV from, where they are, of which launch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from controlplane.domain.compatibility import check
from controlplane.domain.decodes import SWITCHES, UNKNOWN, Decode
from controlplane.domain.disagreement import Finding, Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.rankmap import RankMapping, map_ranks
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.tail import Cursor

from . import fleet
from .compatibility import prefill_of
from .explain import why_in_short
from .rows import InstanceRow, LaunchRow
from .wording import address

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
class Resolved:
    """One launch of a prefill, as one decode has to use it. `addresses` are `ip:port` of every rank that is named.

    `open` are findings that nobody can decide here. `old`: no bootstrap process leads, so the wire would not answer;
    this is what it last held. `intent` may be cordoned or draining: rooms in flight must still resolve.
    """

    instance: str
    launch: int
    token: str | None
    topology: Topology
    follow_bootstrap_room: bool
    groups: tuple[int, ...]
    ranks: tuple[MappedRank, ...]
    addresses: dict[Slot, str]
    is_mla: bool
    intent: str
    open: tuple[Finding, ...]
    cursor: Cursor
    old: bool

    @property
    def etag(self) -> str:
        """The same for as long as the launch, its token and every address of the answer are the same."""
        said = "\n".join(f"{slot} {where}" for slot, where in self.addresses.items())
        digest = hashlib.sha256(f"{self.instance}\n{self.token}\n{self.ranks}\n{said}".encode()).hexdigest()
        return f"{self.launch}-{digest[:16]}"

    def dp_of(self, room: int) -> int | None:
        """The DP group that holds a room's KV; None when only the prefill knows (`/query_dp_ranks`)."""
        if self.topology.dp == 1:
            return 0
        return room % self.topology.dp if self.follow_bootstrap_room else None


def resolve(
    name: str,
    decode: Decode,
    *,
    now: float,
    engine_rank: int | None = None,
    pp_rank: int = 0,
    dp: int | None = None,
) -> Resolved:
    """For one rank of the decode or, without `engine_rank`, for all of them; for one DP group of the prefill, or all.

    Raises Refused: not_found (unknown, or retired), unavailable (not serving, with who is missing), conflict (the pair
    cannot work), malformed (what was posted does not say enough).
    """
    with fleet.snapshot():
        instance, found = fleet.instance(name, now=now)
        rows = fleet.ranks(instance.id, term=found.leader.token)
    launch = _serving(instance, now=now)
    prefill = prefill_of(launch)
    groups = _groups(launch, dp)
    if decode.tp_size is UNKNOWN:
        raise Refused("tp_size is needed: which ranks a decode takes KV from depends on it", code="malformed")
    findings = check(decode, prefill)
    wanted = [(engine_rank, pp_rank)] if engine_rank is not None else _all_ranks(decode)
    ranks = tuple(_mapped(decode, prefill, rank, stage) for rank, stage in wanted)
    _check_size(ranks, groups)
    there = {row.slot: address(row.ip, row.port) for row in rows if row.launch == launch.number}
    needed = dict.fromkeys(slot for group in groups for rank in ranks for slot in rank.slots(group))
    return Resolved(
        instance=name,
        launch=launch.number,
        token=launch.token,
        topology=launch.topology,
        follow_bootstrap_room=prefill.facts.follow_bootstrap_room,
        groups=groups,
        ranks=ranks,
        addresses={slot: there[slot] for slot in sorted(needed)},
        is_mla=decode.is_mla is True,
        intent=instance.intent,
        open=findings,
        cursor=Cursor(found.ledger_id, found.revision),
        old=not found.leader.leads(now),
    )


def _serving(instance: InstanceRow, *, now: float) -> LaunchRow:
    if instance.retired:
        raise Refused(f"{instance.name} is retired", code="not_found")
    if instance.current is None or not instance.serving:
        code = "conflict" if instance.role == "decode" and instance.current is None else "unavailable"
        raise Refused(why_in_short(instance, now=now).removesuffix("."), code=code)
    return instance.current


def _groups(launch: LaunchRow, dp: int | None) -> tuple[int, ...]:
    size = launch.topology.dp
    if dp is None:
        return tuple(range(size))
    if not 0 <= dp < size:
        raise Refused(f"dp {dp} does not exist: launch {launch.number} has {size} DP groups", code="malformed")
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
