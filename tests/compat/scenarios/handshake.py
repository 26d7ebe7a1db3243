"""Our verdict about pairs beside SGLang's own: the handshake of a decode with what a prefill's directory answers."""

import random
from collections import Counter
from collections.abc import Iterator
from types import MethodType, SimpleNamespace
from typing import Any

from sglang.srt.disaggregation.base.conn import StateType
from sglang.srt.disaggregation.common import conn

from controlplane.domain.compatibility import compare
from controlplane.domain.decodes import Decode, read
from controlplane.domain.disagreement import Effect, Prefill
from controlplane.domain.topology import SharedFacts, Topology

PAIRS = 30_000
SPARK = [None, None, None, {"block": 4, "draft": "x"}, {"block": 8, "draft": "x"}]
STATES = [[], [], [], ["minimax_index_k"], ["block_scale"], ["block_scale_swa", "dsa"]]
POLICIES = ["early", "early", "early", "prefill_complete"]
MODELS = [(True, False), (False, True), (False, False)]
WHERE = "10.0.0.1:8998"

# How each of SGLang's refusals begins, and which of our fields it is about.
TOLD = {
    "Page size mismatch": "page_size",
    "KV cache dtype mismatch": "kv_cache_dtype",
    "MiniMax": "tp_size",
    "KV layout mismatch": "kv_layout",
    "DeepSeek-V4.1 DSpark PD layout": "dsv41_spec_layout",
    "DeepSeek-V4.1 DSpark PD requires": "tp_size",
    "PD Disaggregation does NOT support different attention TP": "tp_size",
    "PD decode DCP": "dcp_size",
    "MLA KV cache sharding": "tp_size",
    "('Decode cp size": "cp_size",
    "('Decode pp size": "pp_size",
}


def compare_many_pairs(seed: int) -> Iterator[dict[str, Any]]:
    conn.logger.warning_once = lambda *_: None
    dice = random.Random(seed)
    tally: Counter[str] = Counter()
    differences: list[Any] = []
    kept = conn.requests, conn.get_disagg
    try:
        for _ in range(PAIRS):
            given, topology, facts = _pair(dice)
            decode, prefill = read(given), Prefill(topology, facts)
            ours, theirs = _ask_us(decode, prefill), _ask_sglang(given, prefill)
            tally[theirs] += 1
            if ours != theirs and len(differences) < 10:
                differences.append([str(given), str(topology), str(facts), ours, theirs])
    finally:
        conn.requests, conn.get_disagg = kept
    yield {"tally": tally, "differences": differences}


def _pair(dice: random.Random) -> tuple[dict[str, Any], Topology, SharedFacts]:
    mla, hybrid = dice.choice(MODELS)
    given = {
        "tp_size": dice.choice([1, 2, 3, 4, 8]),
        "cp_size": dice.choice([1] * 9 + [2]),
        "pp_size": dice.choice([1, 1, 1, 2]),
        "dcp_size": dice.choice([1] * 7 + [2]),
        "is_mla": mla,
        "is_hybrid_mla": hybrid,
        "all_cp_ranks": dice.random() < 0.2,
        "page_size": dice.choice([64] * 9 + [32]),
        "kv_cache_dtype": dice.choice(["auto"] * 9 + ["fp8_e4m3"]),
        "kv_layout": dice.choice([None, "nhd", "nhd", "hnd"]),
        "dsv41_spec_layout": dice.choice(SPARK),
        "decode_allocation_policy": dice.choice(POLICIES),
        "state_types": dice.choice(STATES),
    }
    spark = read({"dsv41_spec_layout": dice.choice([given["dsv41_spec_layout"], *SPARK])}).dsv41_spec_layout
    facts = SharedFacts(
        dice.choice([64] * 9 + [None]),
        dice.choice(["auto"] * 9 + [None]),
        dice.choice([None, "nhd", "nhd", "hnd"]),
        spark if isinstance(spark, str) else None,
        "follow_bootstrap_room",
        dice.random() < 0.2,
        dice.random() < 0.2,
        dice.choice(POLICIES),
    )
    return (
        given,
        Topology(dice.choice([1, 2]), dice.choice([1, 1, 2]), dice.choice([1, 2, 4]), dice.choice([1, 1, 2])),
        facts,
    )


def _ask_us(decode: Decode, prefill: Prefill) -> str:
    """What is found out at the handshake: sizes that do not divide are not."""
    found = compare(decode, prefill).findings
    dies = next((finding.field for finding in found if finding.effect is Effect.DECODE_DIES), None)
    if dies is not None:
        return f"dies of {dies}"
    policy = any(f.field == "decode_allocation_policy" and f.effect is Effect.REQUEST_FAILS for f in found)
    return "request fails" if policy else "works"


def _ask_sglang(given: dict[str, Any], prefill: Prefill) -> str:
    manager = _manager(given)
    conn.requests = SimpleNamespace(
        get=lambda *_, **__: SimpleNamespace(status_code=200, json=lambda: _answer(prefill))
    )
    conn.get_disagg = lambda: SimpleNamespace(disaggregation_decode_allocation_policy=given["decode_allocation_policy"])
    try:
        assert conn.CommonKVManager.try_ensure_parallel_info(manager, WHERE) is True
    except (RuntimeError, AssertionError) as refusal:
        said = str(refusal)
        return f"dies of {next((field for begins, field in TOLD.items() if said.startswith(begins)), said)}"
    return _first_request(manager)


def _first_request(manager: SimpleNamespace) -> str:
    """`CommonKVReceiver.init` up to where it asks for addresses."""
    failed: list[str] = []
    manager.record_failure = lambda _, reason: failed.append(reason)
    manager.update_status = lambda *_: None
    manager.required_prefill_response_num_table = {}
    manager.enable_staging = False
    receiver = SimpleNamespace(
        conclude_state=None, bootstrap_addr=WHERE, bootstrap_room=1, kv_mgr=manager, _setup_bootstrap_infos=lambda: None
    )
    receiver._prefill_wait_start, receiver.bootstrap_infos = None, []
    conn.CommonKVReceiver.init(receiver, 0)
    return "request fails" if failed else "works"


def _manager(given: dict[str, Any]) -> SimpleNamespace:
    manager = SimpleNamespace(
        prefill_info_table={},
        kv_args=SimpleNamespace(
            page_size=given["page_size"], engine_rank=0, state_types=[StateType(name) for name in given["state_types"]]
        ),
        kv_cache_dtype_str=given["kv_cache_dtype"],
        kv_layout=given["kv_layout"],
        dsv41_spec_layout=given["dsv41_spec_layout"],
        attn_tp_size=given["tp_size"],
        attn_cp_size=given["cp_size"],
        attn_cp_rank=0,
        pp_size=given["pp_size"],
        pp_rank=0,
        dcp_size=given["dcp_size"],
        is_mla_backend=given["is_mla"],
        is_hybrid_mla_backend=given["is_hybrid_mla"],
        enable_all_cp_ranks_for_transfer=given["all_cp_ranks"] or given["is_hybrid_mla"],
    )
    manager._resolve_rank_mapping = MethodType(conn.CommonKVManager._resolve_rank_mapping, manager)
    return manager


def _answer(prefill: Prefill) -> dict[str, Any]:
    facts, (dp, cp, tp, pp) = prefill.facts, prefill.topology.axes()
    layout = facts.dsv41_spec_layout
    return {
        "attn_tp_size": tp,
        "attn_cp_size": cp,
        "dp_size": dp,
        "pp_size": pp,
        "page_size": facts.page_size,
        "kv_cache_dtype": facts.kv_cache_dtype,
        "follow_bootstrap_room": facts.follow_bootstrap_room,
        "enable_dsa_cache_layer_split": facts.enable_dsa_cache_layer_split,
        "dsv41_spec_layout": conn.msgspec.json.decode(layout) if layout else None,
        "kv_layout": facts.kv_layout,
        "decode_allocation_policy": facts.decode_allocation_policy,
        "enable_kv_cache_sharding": facts.enable_kv_cache_sharding,
    }
