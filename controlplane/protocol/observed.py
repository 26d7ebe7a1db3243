"""What an engine's own servers answer, from bytes to values: topology, slots, weights, /server_info."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from controlplane.domain.addresses import canonical_host
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Address
from controlplane.domain.observing import START
from controlplane.domain.topology import MAX_SIZE, SharedFacts, Slot, Topology

from .kv import MAX_LAYOUT_BYTES, facts
from .reading import decoded, numeric

TOPOLOGY_QUERY = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
INFO_PATH = "/get_transfer_engine_info?rank={rank}"
COUNTED = re.compile(rb"not fully registered yet \((\d{1,9}) workers registered\)")
FOLLOWS, OTHER = "follow_bootstrap_room", "other"


class TopologyBody(msgspec.Struct):
    attn_tp_size: int
    attn_cp_size: int
    dp_size: int
    pp_size: int
    page_size: int | None = None
    kv_cache_dtype: str | None = None
    kv_layout: str | None = None
    dsv41_spec_layout: dict[str, Any] | None = None
    follow_bootstrap_room: bool | None = True
    enable_dsa_cache_layer_split: bool | None = False
    enable_kv_cache_sharding: bool | None = False
    prefill_http_port: int | None = None
    decode_allocation_policy: str | None = "early"


class SlotBody(msgspec.Struct):
    rank_ip: str
    rank_port: int | str


class InfoBody(msgspec.Struct):
    rank: int
    remote_instance_transfer_engine_info: tuple[msgspec.Raw, msgspec.Raw]


TOPOLOGY = msgspec.json.Decoder(TopologyBody)
SLOT = msgspec.json.Decoder(SlotBody)
INFO = msgspec.json.Decoder(InfoBody)
ANY = msgspec.json.Decoder()


def slot_query(slot: Slot) -> str:
    return (
        f"/route?prefill_dp_rank={slot.dp}&prefill_cp_rank={slot.cp}&target_tp_rank={slot.tp}&target_pp_rank={slot.pp}"
    )


def read_topology(body: bytes) -> tuple[Topology, SharedFacts, int | None]:
    """The sizes, what all ranks share, and the port of the engine's API. Raises Refused (malformed)."""
    b: TopologyBody = decoded(TOPOLOGY, body, "the answer")
    topology = Topology(b.dp_size, b.attn_cp_size, b.attn_tp_size, b.pp_size)
    topology.check(Slot(0, 0, 0, 0))
    shared = facts(
        b.page_size if b.page_size is not None else 1,
        b.kv_cache_dtype,
        b.kv_layout,
        _layout(b.dsv41_spec_layout),
        FOLLOWS if b.follow_bootstrap_room is not False else OTHER,
        b.enable_dsa_cache_layer_split,
        b.enable_kv_cache_sharding,
        b.decode_allocation_policy,
    )
    if b.page_size is None:
        shared = replace(shared, page_size=None)
    port = b.prefill_http_port
    return topology, shared, port if port is not None and 1 <= port <= 65535 else None


def read_slot(body: bytes) -> Address:
    """Raises Refused (malformed)."""
    b: SlotBody = decoded(SLOT, body, "the answer")
    return canonical_host(b.rank_ip), numeric(b.rank_port, "rank_port", 1, 65535)


def read_count(body: bytes) -> int | None:
    """How many ranks registered, as a server that is not ready says it; None when it says something else."""
    found = COUNTED.search(body)
    return int(found[1]) if found else None


def as_publication(body: bytes) -> bytes:
    """The answer about one rank's weights, as the request that published it: numbers stay as they are, to the last digit.

    The server keeps them by tensor-parallel rank, so another pipeline stage may mean the same key.
    """
    b: InfoBody = decoded(INFO, body, "the answer")
    session, weights = b.remote_instance_transfer_engine_info
    return b'{"tp_rank":%d,"transfer_engine_info":{"session_id":%b,"weights_info_dict":%b}}' % (
        b.rank,
        bytes(session),
        bytes(weights),
    )


def read_server_info(body: bytes) -> tuple[str, dict[str, Any]]:
    """Which start of the engine answers ("" when it does not say), and what it is. Raises Refused (malformed).

    `startup_time` is a moment in some versions and a set of durations in others: alike it is in one start only.
    """
    told = decoded(ANY, body, "the answer")
    if not isinstance(told, dict) or "disaggregation_mode" not in told:
        raise Refused("it does not say what an engine says of itself", code="malformed")
    started = told.get("startup_time")
    identity = ""
    if started is not None:
        identity = START + hashlib.sha256(msgspec.json.encode(started, order="sorted")).hexdigest()[:32]
    return identity, _described(told)


def read_bootstrap_port(body: bytes) -> int | None:
    """Where /server_info says that the engine's KV bootstrap server listens; None when it does not say."""
    try:
        told = decoded(ANY, body, "the answer")
    except Refused:
        return None
    return _size(told.get("disaggregation_bootstrap_port"), most=65_535) if isinstance(told, dict) else None


def _described(told: Mapping[str, Any]) -> dict[str, Any]:
    """What it is, under the names by which a decode describes itself here; unknown is left away."""
    mode = told.get("disaggregation_mode")
    said: dict[str, Any] = {"mode": mode} if mode in ("prefill", "decode", "null") else {}
    world, dp = _size(told.get("tp_size")), _size(told.get("dp_size")) or 1
    cp, pp = _size(told.get("attn_cp_size"), most=MAX_SIZE) or 1, _size(told.get("pp_size"), most=MAX_SIZE)
    if world:
        said["world_tp_size"] = world
        attention = world // (cp * (dp if told.get("enable_dp_attention") is True else 1))
        if 1 <= attention <= MAX_SIZE:
            said |= {"tp_size": attention, "cp_size": cp}
    if pp:
        said["pp_size"] = pp
    if page := _size(told.get("page_size"), most=2**31 - 1):
        said["page_size"] = page
    dtype = told.get("kv_cache_dtype")
    # What "auto" became, only its ranks know.
    if isinstance(dtype, str) and 0 < len(dtype) <= 100 and dtype.isprintable() and dtype != "auto":
        said["kv_cache_dtype"] = dtype
    for name, key in (("version", "version"), ("model", "served_model_name")):
        value = told.get(key)
        if isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable():
            said[name] = value
    return said


def _size(value: Any, *, most: int = 65_536) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most else None


def _layout(layout: dict[str, Any] | None) -> str | None:
    if layout is None:
        return None
    encoded = msgspec.json.encode(layout, order="sorted")
    if len(encoded) > MAX_LAYOUT_BYTES:
        raise Refused(f"dsv41_spec_layout is larger than {MAX_LAYOUT_BYTES} bytes", code="malformed")
    return encoded.decode()
