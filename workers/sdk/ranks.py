"""What a prefill rank says of itself when it registers, under SGLang's own names (conn.py, register_to_bootstrap)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from controlplane.domain.directory import Registration
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology
from controlplane.protocol import kv

from .errors import BadRank


def effective_dp(*, attn_dp_size: int, attn_dp_rank: int, system_dp_size: int, system_dp_rank: int) -> tuple[int, int]:
    """Size and rank of the DP group that counts: with several whole replicas that is the system's, for the attention DP rank
    is 0 in each of them.

    >>> effective_dp(attn_dp_size=1, attn_dp_rank=0, system_dp_size=2, system_dp_rank=1)
    (2, 1)
    >>> effective_dp(attn_dp_size=4, attn_dp_rank=3, system_dp_size=1, system_dp_rank=0)
    (4, 3)
    """
    if system_dp_size == 1:
        return attn_dp_size, attn_dp_rank
    return system_dp_size, system_dp_rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One prefill rank: its place in the engine, where its ZeroMQ socket listens, and what all ranks of it share.

    `rank_ip` is an address that the decodes can reach (`own_address`), `dsv41_spec_layout` a JSON object.
    """

    rank_ip: str
    rank_port: int
    page_size: int
    kv_cache_dtype: str | None = "auto"
    attn_tp_size: int = 1
    attn_tp_rank: int = 0
    attn_cp_size: int = 1
    attn_cp_rank: int = 0
    attn_dp_size: int = 1
    attn_dp_rank: int = 0
    pp_size: int = 1
    pp_rank: int = 0
    system_dp_size: int = 1
    system_dp_rank: int = 0
    kv_layout: str | None = None
    dsv41_spec_layout: Mapping[str, Any] | None = None
    load_balance_method: str = "follow_bootstrap_room"
    enable_dsa_cache_layer_split: bool = False
    enable_kv_cache_sharding: bool = False
    prefill_http_port: int | None = None
    decode_allocation_policy: str = "early"

    def __post_init__(self) -> None:
        try:
            self.registration()
        except Refused as problem:
            raise BadRank(problem.sentence) from None

    def registration(self) -> Registration:
        """As the directory reads it. Raises Refused."""
        return kv.read_register(self.body())

    def body(self) -> bytes:
        """The JSON of `PUT /route`."""
        return msgspec.json.encode(asdict(self))

    @property
    def dp_rank(self) -> int:
        """The effective DP rank: what a room is bound to."""
        return self.slot.dp

    @property
    def slot(self) -> Slot:
        _, dp = self._dp()
        return Slot(dp, self.attn_cp_rank, self.attn_tp_rank, self.pp_rank)

    @property
    def topology(self) -> Topology:
        size, _ = self._dp()
        return Topology(size, self.attn_cp_size, self.attn_tp_size, self.pp_size)

    def _dp(self) -> tuple[int, int]:
        return effective_dp(
            attn_dp_size=self.attn_dp_size,
            attn_dp_rank=self.attn_dp_rank,
            system_dp_size=self.system_dp_size,
            system_dp_rank=self.system_dp_rank,
        )
