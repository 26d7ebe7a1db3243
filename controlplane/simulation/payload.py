"""The bodies that SGLang 0.5.23 sends.

From `register_to_bootstrap`, `_register_to_engine_info_bootstrap` and `_register_prefill_dp_rank`.
"""

from __future__ import annotations

import json
from typing import Any

from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation.shape import Shape

FIRST_ADDRESS = 0x7F0000000000
TENSOR_BYTES = 33_554_432
PARTS = (
    "self_attn.qkv_proj",
    "self_attn.o_proj",
    "mlp.gate_up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
)


def route_row(shape: Shape, slot: Slot, facts: SharedFacts, *, ip: str, port: int, http_port: int) -> dict[str, Any]:
    """The row of one rank, keys in SGLang's order, nulls included."""
    several_engines = shape.system_dp > 1
    return {
        "attn_tp_size": shape.tp,
        "attn_tp_rank": slot.tp,
        "attn_cp_size": shape.cp,
        "attn_cp_rank": slot.cp,
        "attn_dp_size": shape.dp,
        "attn_dp_rank": 0 if several_engines else slot.dp,
        "pp_size": shape.pp,
        "pp_rank": slot.pp,
        "system_dp_size": shape.system_dp,
        "system_dp_rank": slot.dp if several_engines else 0,
        "rank_ip": ip,
        "rank_port": port,
        "page_size": facts.page_size,
        "kv_cache_dtype": facts.kv_cache_dtype,
        "kv_layout": facts.kv_layout,
        "dsv41_spec_layout": facts.dsv41_spec_layout,
        "load_balance_method": facts.load_balance_method,
        "enable_dsa_cache_layer_split": facts.enable_dsa_cache_layer_split,
        "enable_kv_cache_sharding": facts.enable_kv_cache_sharding,
        "prefill_http_port": http_port,
        "decode_allocation_policy": facts.decode_allocation_policy,
    }


def weights_row(shape: Shape, slot: Slot, *, session_id: str, tensors: int) -> dict[str, Any]:
    """The transfer-engine info of one rank, with `tensors` invented tensors of 32 MiB.

    SGLang's `tp_rank` repeats in every pipeline stage and engine; only there the newer `rank` is sent too.
    """
    key = {"tp_rank": shape.engine_tp_rank(slot)}
    if shape.pp > 1 or shape.system_dp > 1:
        key["rank"] = shape.world_rank(slot)
    return {
        **key,
        "transfer_engine_info": {"session_id": session_id, "weights_info_dict": invented_weights(tensors)},
    }


def invented_weights(tensors: int) -> dict[str, list[int]]:
    """`{name: [data_ptr, numel, element_size]}`, named as a decoder-only model names its layers."""
    return {
        f"model.layers.{at // len(PARTS)}.{PARTS[at % len(PARTS)]}.weight": [
            FIRST_ADDRESS + at * TENSOR_BYTES,
            TENSOR_BYTES // 2,
            2,
        ]
        for at in range(tensors)
    }


def room_row(room: int, dp: int) -> dict[str, Any]:
    return {"bootstrap_room": room, "dp_rank": dp}


def encode(row: dict[str, Any]) -> bytes:
    """Spaces after comma and colon, as `requests` writes JSON."""
    return json.dumps(row, allow_nan=False).encode()
