"""What is sent in the cases: rows, rooms and dictionaries, generated afresh for each pass."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import lru_cache

from controlplane.simulation.payload import invented_weights
from tests.bench.load import Request

# One instance of 1,024 ranks.
DP, CP, TP, PP = 8, 4, 8, 4
RANKS = DP * CP * TP * PP
TOPOLOGY_QUERY = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
ROOMS = range(4_611_686_018_427_000_000, 4_611_686_018_427_000_000 + 4096)
SESSIONS = 64

# 203.0.113.0/24 is documentation address space: outside the networks that we probe.
ROW = (
    '{"attn_tp_size": 8, "attn_tp_rank": %d, "attn_cp_size": 4, "attn_cp_rank": %d, "attn_dp_size": 8, '
    '"attn_dp_rank": %d, "pp_size": 4, "pp_rank": %d, "system_dp_size": 1, "system_dp_rank": 0, '
    '"rank_ip": "203.0.113.%d", "rank_port": %d, "page_size": 64, "kv_cache_dtype": "auto", '
    '"kv_layout": null, "dsv41_spec_layout": null, "load_balance_method": "follow_bootstrap_room", '
    '"enable_dsa_cache_layer_split": false, "enable_kv_cache_sharding": false, "prefill_http_port": 30000, '
    '"decode_allocation_policy": "early"}'
)


def rows(count: int, *, past_the_end: bool = False) -> Iterator[str]:
    """Bodies of PUT /route in slot order. After 1,024 the slots begin again, or go on past the DP size.

    The original takes any rank index, which is how one of its servers can hear more than 1,024 first ones.
    """
    for at in range(count):
        dp, cp, tp, pp = at % DP, at // DP % CP, at // (DP * CP) % TP, at // (DP * CP * TP) % PP
        if past_the_end:
            dp += at // RANKS * DP
        yield ROW % (tp, cp, dp, pp, 1 + at % 250, 20_000 + at % 40_000)


def repeated_registrations(prefix: str) -> Iterator[Request]:
    return (Request("PUT", f"{prefix}/route", row) for row in rows(RANKS))


def first_registrations(count: int, *, instance: str | None) -> Iterator[Request]:
    """Every PUT another slot: of one instance after the other, `/i/INSTANCE-N`, or of one that never ends."""
    for at, row in enumerate(rows(count, past_the_end=instance is None)):
        prefix = f"/i/{instance}-{at // RANKS}" if instance else ""
        yield Request("PUT", f"{prefix}/route", row)


def slot_look_ups(prefix: str) -> Iterator[Request]:
    for at in range(RANKS):
        dp, cp, tp, pp = at % DP, at // DP % CP, at // (DP * CP) % TP, at // (DP * CP * TP)
        query = f"prefill_dp_rank={dp}&prefill_cp_rank={cp}&target_tp_rank={tp}&target_pp_rank={pp}"
        yield Request("GET", f"{prefix}/route?{query}")


def topology(prefix: str) -> Iterator[Request]:
    yield Request("GET", f"{prefix}/route?{TOPOLOGY_QUERY}")


def health(prefix: str) -> Iterator[Request]:
    yield Request("GET", f"{prefix}/health")


def known_rooms(prefix: str) -> Iterator[Request]:
    for at, room in enumerate(ROOMS):
        yield Request("POST", f"{prefix}/register_dp_rank", _binding(room, at % DP))


def new_rooms(prefix: str, count: int) -> Iterator[Request]:
    for at in range(count):
        yield Request("POST", f"{prefix}/register_dp_rank", _binding(random.getrandbits(63), at % DP))


def room_queries(prefix: str) -> Iterator[Request]:
    """64 rooms each, all of them known."""
    for start in range(0, len(ROOMS), 64):
        body = json.dumps({"bootstrap_rooms": list(ROOMS[start : start + 64])})
        yield Request("POST", f"{prefix}/query_dp_ranks", body)


def weights_look_ups(prefix: str) -> Iterator[Request]:
    yield Request("GET", f"{prefix}/get_transfer_engine_info?rank=0")


@lru_cache(maxsize=1)
def weights_uploads(prefix: str, tensors: int) -> list[Request]:
    """64 ranks, then the same ranks after a reload of their weights (other addresses), and so on."""
    uploads = []
    for version in (0, 1):
        shifted = {
            name: [pointer + 4096 * version, numel, size]
            for name, (pointer, numel, size) in invented_weights(tensors).items()
        }
        dictionary = json.dumps(shifted)
        for rank in range(SESSIONS):
            session = f"203.0.113.7:{20_000 + rank}"
            info = f'{{"session_id": "{session}", "weights_info_dict": {dictionary}}}'
            body = f'{{"tp_rank": {rank}, "transfer_engine_info": {info}}}'
            uploads.append(Request("PUT", f"{prefix}/register_transfer_engine_info", body))
    return uploads


def _binding(room: int, dp: int) -> str:
    return f'{{"bootstrap_room": {room}, "dp_rank": {dp}}}'
