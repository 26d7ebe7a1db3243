"""All that a decode needs of a prefill in one answer: which ranks it takes KV from, where they are, of which launch."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.decodes import Decode
from controlplane.domain.disagreement import Finding
from controlplane.domain.errors import Refused
from controlplane.domain.resolving import MappedRank, plan, tag
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.tail import Cursor

from . import fleet
from .compatibility import prefill_of
from .explain import why_in_short
from .rows import InstanceRow, LaunchRow
from .wording import address


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
        return tag(self.instance, self.launch, self.token, self.ranks, self.addresses)

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
    prefill = prefill_of(launch, instance)
    found_plan = plan(decode, prefill, launch.number, engine_rank=engine_rank, pp_rank=pp_rank, dp=dp)
    there = {row.slot: address(row.ip, row.port) for row in rows if row.launch == launch.number}
    return Resolved(
        instance=name,
        launch=launch.number,
        token=launch.token,
        topology=launch.topology,
        follow_bootstrap_room=prefill.facts.follow_bootstrap_room,
        groups=found_plan.groups,
        ranks=found_plan.ranks,
        addresses={slot: there[slot] for slot in found_plan.slots()},
        is_mla=decode.is_mla is True,
        intent=instance.intent,
        open=found_plan.open,
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
