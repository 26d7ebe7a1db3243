"""What a decode needs of a prefill, as values: the question, the answer, and the answer read from the API's JSON."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from controlplane.domain import decodes
from controlplane.domain.addresses import bracketed
from controlplane.domain.decodes import Decode
from controlplane.domain.errors import Refused
from controlplane.domain.rankmap import RankMapping
from controlplane.domain.topology import Slot, Topology
from controlplane.protocol.kv import host as canonical

from .errors import BadDecode, WorkerError
from .places import Place


def read_decode(given: Mapping[str, Any]) -> Decode:
    """A decode engine as it describes itself, under SGLang's names (`tp_size`, `page_size`, `is_mla`, …). What is left away
    is unknown, not null. Raises WorkerError that names the field."""
    try:
        return decodes.read(given)
    except Refused as problem:
        raise BadDecode(problem.sentence) from None


@dataclass(frozen=True, slots=True)
class Question:
    """Which ranks of the decode ask (`engine_rank` None: all of them), about which DP group of the prefill (None: all)."""

    decode: Decode
    engine_rank: int | None = None
    pp_rank: int = 0
    dp: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One prefill rank to connect to. `dummy`: it is told of the request and sends nothing (MLA)."""

    slot: Slot
    host: str
    port: int
    dummy: bool = False

    @property
    def address(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def endpoint(self) -> str:
        """As ZeroMQ takes it; its sockets need `zmq.IPV6` when `is_ipv6`."""
        return f"tcp://{self.address}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host


@dataclass(frozen=True, slots=True)
class RankTargets:
    """Where one rank of the decode connects, in each DP group, in SGLang's order (higher pipeline stages first)."""

    engine_rank: int
    pp_rank: int
    mapping: RankMapping
    by_dp: Mapping[int, tuple[Target, ...]]


@dataclass(frozen=True, slots=True)
class Resolved:
    """One launch of a prefill, as one decode has to use it.

    `launch`, `token`, `intent` and `open` (findings that nobody can decide, as sentences) are known from a control plane
    only. `identity` changes with the launch or any address. `cursor` is where the ledger stood (`LEDGER:N`), or empty.
    """

    place: Place
    instance: str | None
    topology: Topology
    follow_bootstrap_room: bool
    ranks: tuple[RankTargets, ...]
    identity: str
    launch: int | None = None
    token: str | None = None
    intent: str = ""
    open: tuple[str, ...] = ()
    cursor: str = ""
    old: bool = False
    prefill_http_port: int | None = None

    def rank(self, engine_rank: int = 0, pp_rank: int = 0) -> RankTargets:
        """Raises WorkerError when that rank was not asked for."""
        for one in self.ranks:
            if (one.engine_rank, one.pp_rank) == (engine_rank, pp_rank):
                return one
        raise WorkerError(f"engine rank {engine_rank} of pipeline stage {pp_rank} was not asked for")

    def targets(self, dp: int, engine_rank: int = 0, pp_rank: int = 0) -> tuple[Target, ...]:
        """The ranks of DP group `dp` that this rank of the decode connects to."""
        found = self.rank(engine_rank, pp_rank).by_dp.get(dp)
        if found is None:
            raise WorkerError(f"DP group {dp} was not asked for, or does not exist in {self.topology}")
        return found

    def dp_of(self, room: int) -> int | None:
        """The DP group that holds a room's KV, by arithmetic; None when only the prefill knows, so that it must be asked."""
        if self.topology.dp == 1:
            return 0
        return room % self.topology.dp if self.follow_bootstrap_room else None

    @property
    def known_as(self) -> str | None:
        """By what evidence names this prefill: its instance, or, from a server that tells none, the address of a rank."""
        if self.instance is not None:
            return self.instance
        first = next(self.all_targets(), None)
        return first.address if first is not None else None

    def all_targets(self) -> Iterator[Target]:
        for one in self.ranks:
            for targets in one.by_dp.values():
                yield from targets


class TargetBody(msgspec.Struct):
    slot: str
    address: str
    dummy: bool = False


class GroupBody(msgspec.Struct):
    dp: int
    targets: list[TargetBody]


class RankBody(msgspec.Struct):
    engine_rank: int
    pp_rank: int
    target_tp_rank: int | None
    target_tp_ranks: tuple[int, ...]
    target_cp_ranks: tuple[int, ...]
    target_pp_ranks: tuple[int, ...]
    required_dst_info_num: int
    required_prefill_response_num: int
    groups: list[GroupBody]


class TopologyBody(msgspec.Struct):
    dp: int
    cp: int
    tp: int
    pp: int


class FindingBody(msgspec.Struct):
    sentence: str


class ResolvedBody(msgspec.Struct):
    instance: str
    launch: int
    topology: TopologyBody
    follow_bootstrap_room: bool
    ranks: list[RankBody]
    token: str | None = None
    intent: str = ""
    cursor: str = ""
    old: bool = False
    open: list[FindingBody] = []


BODY = msgspec.json.Decoder(ResolvedBody)
_SLOT = re.compile(r"dp([0-9]{1,5})\.cp([0-9]{1,5})\.tp([0-9]{1,5})\.pp([0-9]{1,5})")


def question_body(instance: str | None, question: Question) -> bytes:
    """The JSON of both ways to ask. Without an instance the door goes by path, port and name as for everything else."""
    said: dict[str, Any] = dict(question.decode.said)
    if isinstance(said.get("dsv41_spec_layout"), str):
        said["dsv41_spec_layout"] = msgspec.json.decode(said["dsv41_spec_layout"])
    about = {"instance": instance} if instance is not None else {}
    asked = {"decode": said, "engine_rank": question.engine_rank, "pp_rank": question.pp_rank, "dp": question.dp}
    return msgspec.json.encode({**about, **asked})


def read_resolved(place: Place, told: ResolvedBody, etag: str) -> Resolved:
    """Raises WorkerError or Refused for a slot or an address that is none."""
    known: dict[str, Target] = {}
    ranks = tuple(_rank(one, known) for one in told.ranks)
    shape = told.topology
    return Resolved(
        place,
        told.instance,
        Topology(shape.dp, shape.cp, shape.tp, shape.pp),
        told.follow_bootstrap_room,
        ranks,
        etag or identity(ranks, told.token),
        told.launch,
        told.token,
        told.intent,
        tuple(one.sentence for one in told.open),
        told.cursor,
        told.old,
    )


def identity(ranks: tuple[RankTargets, ...], token: str | None = None) -> str:
    """The same for as long as the mapping and every address are."""
    said = [(one.engine_rank, one.pp_rank, sorted(one.by_dp.items())) for one in ranks]
    return hashlib.sha256(repr((token, said)).encode()).hexdigest()[:24]


def _rank(told: RankBody, known: dict[str, Target]) -> RankTargets:
    mapping = RankMapping(
        target_tp_rank=told.target_tp_rank,
        target_tp_ranks=told.target_tp_ranks,
        target_cp_ranks=told.target_cp_ranks,
        target_pp_ranks=told.target_pp_ranks,
        required_dst_info_num=told.required_dst_info_num,
        required_prefill_response_num=told.required_prefill_response_num,
    )
    groups = {group.dp: tuple(_target(one, known) for one in group.targets) for group in told.groups}
    return RankTargets(told.engine_rank, told.pp_rank, mapping, groups)


def _target(told: TargetBody, known: dict[str, Target]) -> Target:
    """The same few addresses come for every rank of a decode: each is read once."""
    key = f"{told.slot} {told.address} {told.dummy}"
    found = known.get(key)
    if found is None:
        parts = _SLOT.fullmatch(told.slot)
        if parts is None:
            raise WorkerError(f"{told.slot[:40]!r} is no slot")
        # `ip:port` in its one form, which the control plane has checked: reading it as people write them costs ten times this.
        where, _, port = told.address.rpartition(":")
        if not port.isdecimal() or not 1 <= int(port[:6]) <= 65535:
            raise WorkerError(f"{told.address[:100]!r} is no address of a rank")
        found = known[key] = Target(Slot(*map(int, parts.groups())), canonical(where), int(port), told.dummy)
    return found
