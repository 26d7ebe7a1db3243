"""SGLang's KV bootstrap wire: bytes to values and values to bytes.

Source of the behaviour: sglang 0.5.23, srt/disaggregation/common/conn.py (CommonKVBootstrapServer and its clients).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from controlplane.domain.addresses import canonical_host
from controlplane.domain.directory import Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.launch import Launch, Row
from controlplane.domain.rooms import MAX_DP, MAX_ROOM
from controlplane.domain.topology import SharedFacts, Slot, Topology

from . import replies
from .reading import decoded, lenient_int, numeric, short_text
from .replies import JSON, MISSING_INPUTS, Reply, spaced_json

QUERY_NAMES = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
ALL = Slot(-1, -1, -1, -1)
MAX_LAYOUT_BYTES = 8192

Flag = bool | int | None


class RouteBody(msgspec.Struct):
    attn_tp_size: int
    attn_tp_rank: int
    attn_cp_size: int
    attn_cp_rank: int
    attn_dp_size: int
    attn_dp_rank: int
    pp_size: int
    pp_rank: int
    system_dp_size: int
    system_dp_rank: int
    rank_ip: str
    rank_port: int | str
    page_size: int | str
    kv_cache_dtype: str | None
    kv_layout: str | None = None
    dsv41_spec_layout: dict[str, Any] | None = None
    load_balance_method: str | None = "follow_bootstrap_room"
    enable_dsa_cache_layer_split: Flag = False
    enable_kv_cache_sharding: Flag = False
    prefill_http_port: int | str | None = None
    decode_allocation_policy: str | None = "early"


class BindBody(msgspec.Struct):
    bootstrap_room: int | str
    dp_rank: int | str


class FastQuery(msgspec.Struct):
    bootstrap_rooms: list[int]


class QueryBody(msgspec.Struct):
    bootstrap_rooms: list[int | str]


ROUTE = msgspec.json.Decoder(RouteBody)
BIND = msgspec.json.Decoder(BindBody)
FAST_QUERY = msgspec.json.Decoder(FastQuery)
QUERY = msgspec.json.Decoder(QueryBody)

shape = lru_cache(maxsize=4096)(Topology)
host = lru_cache(maxsize=65_536)(canonical_host)


def read_register(body: bytes, *, token: str | None = None) -> Registration:
    """`PUT /route`: a checked registration, or Refused naming the field. Nothing here depends on who sent it."""
    b: RouteBody = decoded(ROUTE, body, "PUT /route")
    if b.system_dp_size == 1:
        dp_size, dp_rank = b.attn_dp_size, b.attn_dp_rank
    else:
        dp_size, dp_rank = b.system_dp_size, b.system_dp_rank
        if not 0 <= b.attn_dp_rank < max(b.attn_dp_size, 1):
            raise Refused(
                f"attn_dp_rank {b.attn_dp_rank} does not exist in a size of {b.attn_dp_size}", code="malformed"
            )
    topology = shape(dp_size, b.attn_cp_size, b.attn_tp_size, b.pp_size)
    slot = Slot(dp_rank, b.attn_cp_rank, b.attn_tp_rank, b.pp_rank)
    topology.check(slot)
    try:
        ip = host(b.rank_ip)
    except Refused as refused:
        raise Refused(f"rank_ip: {refused.sentence}", code="malformed") from None
    http_port = b.prefill_http_port
    return Registration(
        slot,
        topology,
        facts(
            b.page_size,
            b.kv_cache_dtype,
            b.kv_layout,
            None if b.dsv41_spec_layout is None else _layout(b.dsv41_spec_layout),
            b.load_balance_method,
            b.enable_dsa_cache_layer_split,
            b.enable_kv_cache_sharding,
            b.decode_allocation_policy,
        ),
        ip,
        numeric(b.rank_port, "rank_port", 1, 65535),
        None if http_port is None else numeric(http_port, "prefill_http_port", 1, 65535),
        token,
    )


@lru_cache(maxsize=4096)
def facts(
    page_size: int | str,
    kv_cache_dtype: str | None,
    kv_layout: str | None,
    layout: str | None,
    load_balance_method: str | None,
    layer_split: Flag,
    sharding: Flag,
    policy: str | None,
) -> SharedFacts:
    """Checked facts. Every rank of a launch sends the same ones, so they are checked once."""
    return SharedFacts(
        numeric(page_size, "page_size", 1, 2**31 - 1),
        short_text(kv_cache_dtype, "kv_cache_dtype", 100),
        short_text(kv_layout, "kv_layout", 200),
        layout,
        short_text(load_balance_method, "load_balance_method", 100) or "follow_bootstrap_room",
        bool(layer_split),
        bool(sharding),
        short_text(policy, "decode_allocation_policy", 100) or "early",
    )


def _layout(given: dict[str, Any]) -> str:
    encoded = msgspec.json.encode(given, order="sorted")
    if len(encoded) > MAX_LAYOUT_BYTES:
        raise Refused(f"dsv41_spec_layout is larger than {MAX_LAYOUT_BYTES} bytes", code="malformed")
    return encoded.decode()


def read_route_query(query: bytes) -> tuple[Slot, tuple[str, ...]] | None:
    """`GET /route`: the slot asked for (ALL for the topology) and its four values as sent; None when one is missing.

    The first of duplicates wins; integers are as lenient as Python's `int()`.
    """
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, errors="replace")
    except ValueError as problem:
        raise Refused(f"the query cannot be read: {problem}", code="malformed") from None
    for name, value in pairs:
        given.setdefault(name, value)
    texts = tuple(given.get(name, "") for name in QUERY_NAMES)
    if not all(texts):
        return None
    return Slot(*(lenient_int(text, name) for text, name in zip(texts, QUERY_NAMES, strict=True))), texts


def asks_for_topology(query: bytes) -> bool:
    """Whether `GET /route` asks for what all ranks share, and not for one of them."""
    try:
        asked = read_route_query(query)
    except Refused:
        return False
    return asked is not None and asked[0] == ALL


def read_bind(body: bytes) -> tuple[int, int]:
    """`POST /register_dp_rank`: room 0 … 2^63−1 and DP rank."""
    b: BindBody = decoded(BIND, body, "POST /register_dp_rank")
    room = b.bootstrap_room
    if type(room) is not int or not 0 <= room <= MAX_ROOM:
        room = numeric(room, "bootstrap_room", 0, MAX_ROOM)
    dp = b.dp_rank
    if type(dp) is not int or not 0 <= dp <= MAX_DP:
        dp = numeric(dp, "dp_rank", 0, MAX_DP)
    return room, dp


def read_query(body: bytes) -> list[int]:
    """`POST /query_dp_ranks`: the rooms asked for, in order. Rooms that cannot exist are dropped: nobody bound them."""
    try:
        rooms: list[int] = FAST_QUERY.decode(body).bootstrap_rooms
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        mixed: QueryBody = decoded(QUERY, body, "POST /query_dp_ranks")
        rooms = [lenient_int(r, "bootstrap_rooms") if isinstance(r, str) else r for r in mixed.bootstrap_rooms]
    if rooms and (min(rooms) < 0 or max(rooms) > MAX_ROOM):
        return [room for room in rooms if 0 <= room <= MAX_ROOM]
    return rooms


def found_rooms(found: dict[int, int]) -> Reply:
    """`{"<room>": dp, …}` spaced as aiohttp spaces it; nothing in it but digits, so that spacing it afterwards is safe."""
    return Reply(200, msgspec.json.encode(found).replace(b",", b", ").replace(b":", b": "), JSON)


def topology_answer(launch: Launch) -> Reply:
    """Exactly the keys of SGLang's `PrefillServerInfo`: one more would break every deployed decode."""
    facts, topology = launch.facts, launch.topology
    answer: dict[str, Any] = {
        "attn_tp_size": topology.tp,
        "attn_cp_size": topology.cp,
        "dp_size": topology.dp,
        "pp_size": topology.pp,
        "page_size": facts.page_size,
        "kv_cache_dtype": facts.kv_cache_dtype,
        "follow_bootstrap_room": facts.follow_bootstrap_room,
        "enable_dsa_cache_layer_split": facts.enable_dsa_cache_layer_split,
    }
    if facts.dsv41_spec_layout is not None:
        answer["dsv41_spec_layout"] = msgspec.json.decode(facts.dsv41_spec_layout)
    if facts.kv_layout is not None:
        answer["kv_layout"] = facts.kv_layout
    answer |= {
        "decode_allocation_policy": facts.decode_allocation_policy,
        "enable_kv_cache_sharding": facts.enable_kv_cache_sharding,
        "prefill_http_port": leader_http_port(launch),
        "target_tp_rank": None,
        "target_tp_ranks": None,
        "target_cp_ranks": None,
        "target_pp_ranks": None,
        "required_dst_info_num": None,
        "required_prefill_response_num": None,
    }
    return Reply(200, spaced_json(answer), JSON)


def leader_http_port(launch: Launch) -> int | None:
    """The API port of the rank in slot 0, which is where the engine's HTTP server runs; else any that was told."""
    leader = launch.rows.get(Slot(0, 0, 0, 0))
    if leader is not None and leader.http_port is not None:
        return leader.http_port
    return next((row.http_port for row in launch.rows.values() if row.http_port is not None), None)


def rank_answer(row: Row) -> Reply:
    return Reply(200, spaced_json({"rank_ip": row.ip, "rank_port": row.port}), JSON)


def unknown_rank(texts: tuple[str, ...]) -> Reply:
    dp, cp, tp, pp = texts
    return replies.text(404, f"Bootstrap info not found for dp_rank={dp} cp_rank={cp} tp_rank={tp} pp_rank={pp}")


def not_ready(directory: Directory | None) -> Reply:
    count = directory.registered if directory is not None else 0
    return replies.text(503, f"Prefill server not fully registered yet ({count} workers registered).")


def answer_route(directory: Directory | None, query: bytes) -> Reply:
    """`GET /route` for one instance, from published state."""
    asked = read_route_query(query)
    if asked is None:
        return MISSING_INPUTS
    slot, texts = asked
    serving = directory.serving if directory is not None else None
    if serving is None:
        return not_ready(directory)
    if slot == ALL:
        return topology_answer(serving)
    row = serving.rows.get(slot)
    return rank_answer(row) if row is not None else unknown_rank(texts)
