"""Our rank mapping beside SGLang's own `_resolve_rank_mapping`, for every combination there is."""

import itertools
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from sglang.srt.disaggregation.common import conn

from controlplane.domain.errors import Refused
from controlplane.domain.rankmap import DecodeRank, PrefillSizes, map_ranks

TP, CP, PP = range(1, 9), range(1, 5), range(1, 5)
MODELS = {"mla": (True, False), "hybrid": (False, True), "neither": (False, False)}
FIELDS = (
    "target_tp_rank",
    "target_tp_ranks",
    "target_cp_ranks",
    "target_pp_ranks",
    "required_dst_info_num",
    "required_prefill_response_num",
)


def compare_every_combination() -> Iterator[dict[str, Any]]:
    # The real code warns on every non-MLA pair of unequal TP, through a method that GPU builds add.
    conn.logger.warning_once = lambda *_: None
    tally: Counter[str] = Counter()
    differences: list[Any] = []
    nonsense: dict[str, list[str]] = {}
    for decode, prefill in _combinations():
        ours, theirs = _ask_us(decode, prefill), _ask_sglang(decode, prefill)
        if isinstance(ours, Refused) and isinstance(theirs, tuple):
            # The only place where we say no and SGLang says something.
            tally["refused by us alone"] += 1
            kind = _what_is_wrong(decode, prefill, theirs)
            pair = f"decode {decode.tp_size}, prefill {prefill.tp_size}"
            pairs = nonsense.setdefault(f"{ours.code}: {kind}", [])
            if pair not in pairs:
                pairs.append(pair)
        elif isinstance(ours, Refused) and isinstance(theirs, AssertionError):
            tally["refused by both"] += 1
        elif ours == theirs:
            tally["equal"] += 1
        elif len(differences) < 20:
            differences.append([repr(decode), repr(prefill), repr(ours), repr(theirs)])
    yield {"tally": tally, "differences": differences, "nonsense": nonsense}


def _combinations() -> Iterator[tuple[DecodeRank, PrefillSizes]]:
    switches = list(itertools.product((False, True), repeat=2))
    prefills = [
        PrefillSizes(tp_size=tp, cp_size=cp, pp_size=pp, layer_split=split, kv_sharding=sharding)
        for tp, cp, pp in itertools.product(TP, CP, PP)
        for split, sharding in switches
    ]
    for tp, cp, pp in itertools.product(TP, CP, PP):
        for is_mla, is_hybrid in MODELS.values():
            for all_cp in (False, True):
                # SGLang refuses a decode CP above 1 before it looks at PP, so one stage tells it all.
                stages = range(pp) if cp == 1 else range(1)
                for pp_rank, engine_rank in itertools.product(stages, range(tp)):
                    decode = DecodeRank(
                        tp_size=tp,
                        engine_rank=engine_rank,
                        cp_size=cp,
                        pp_size=pp,
                        pp_rank=pp_rank,
                        is_mla=is_mla,
                        is_hybrid_mla=is_hybrid,
                        all_cp_ranks=all_cp,
                    )
                    for prefill in prefills:
                        yield decode, prefill


def _ask_us(decode: DecodeRank, prefill: PrefillSizes) -> tuple[Any, ...] | Refused:
    try:
        mapping = map_ranks(decode, prefill)
    except Refused as refusal:
        return refusal
    return tuple(getattr(mapping, name) for name in FIELDS)


def _ask_sglang(decode: DecodeRank, prefill: PrefillSizes) -> tuple[Any, ...] | AssertionError:
    manager = SimpleNamespace(
        attn_tp_size=decode.tp_size,
        attn_cp_size=decode.cp_size,
        attn_cp_rank=0,
        pp_size=decode.pp_size,
        pp_rank=decode.pp_rank,
        is_mla_backend=decode.is_mla,
        is_hybrid_mla_backend=decode.is_hybrid_mla,
        # As CommonKVManager.__init__ computes it for a decode without CP.
        enable_all_cp_ranks_for_transfer=decode.all_cp_ranks or decode.is_hybrid_mla,
        kv_args=SimpleNamespace(engine_rank=decode.engine_rank),
    )
    info = SimpleNamespace(
        attn_tp_size=prefill.tp_size,
        attn_cp_size=prefill.cp_size,
        pp_size=prefill.pp_size,
        enable_dsa_cache_layer_split=prefill.layer_split,
        enable_kv_cache_sharding=prefill.kv_sharding,
    )
    try:
        conn.CommonKVManager._resolve_rank_mapping(manager, info)
    except AssertionError as refusal:
        return refusal
    answers = (getattr(info, name) for name in FIELDS)
    return tuple(tuple(answer) if isinstance(answer, list) else answer for answer in answers)


def _what_is_wrong(decode: DecodeRank, prefill: PrefillSizes, theirs: tuple[Any, ...]) -> str:
    """Name the nonsense that integer division makes of a whole decode engine."""
    ratio = max(decode.tp_size, prefill.tp_size) // min(decode.tp_size, prefill.tp_size)
    if decode.tp_size > prefill.tp_size:
        asked = {rank // ratio for rank in range(decode.tp_size)}
        return "asks for prefill ranks that do not exist" if max(asked) >= prefill.tp_size else "?"
    asked = set(range(decode.tp_size * ratio))
    return "leaves prefill ranks that nobody asks" if len(asked) < prefill.tp_size else "?"
