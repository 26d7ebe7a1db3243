"""Decode ranks of every size meet a prefill instance; what they compute must be what we say."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from sglang.srt.environ import envs

from controlplane.domain.rankmap import DecodeRank, PrefillSizes, map_ranks
from tests.compat import harness
from tests.compat.harness import Prefill, Shape


def every_decode_rank_of_every_size(port: int) -> Iterator[dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(tp=4, pp=2), port).register_all()
    differences: list[Any] = []
    dummies = {}
    for tp in (1, 2, 4, 8):
        for rank in range(tp):
            for is_mla in (False, True):
                decode = harness.decode_rank(tp=tp, rank=rank, is_mla=is_mla)
                if not harness.is_ready(decode, address):
                    differences.append([tp, rank, is_mla, "not resolved"])
                    continue
                info = decode.prefill_info_table[address]
                ours = dataclasses.asdict(
                    map_ranks(
                        DecodeRank(tp_size=tp, engine_rank=rank, is_mla=is_mla),
                        PrefillSizes(tp_size=info.attn_tp_size, pp_size=info.pp_size),
                    )
                )
                theirs = {name: getattr(info, name) for name in ours}
                if {n: tuple(v) if isinstance(v, list) else v for n, v in theirs.items()} != ours:
                    differences.append([tp, rank, is_mla, ours, theirs])
                if (tp, rank) == (2, 1):
                    receiver = harness.receive(decode, address, room=7)
                    asked = [found["is_dummy"] for found in receiver.bootstrap_infos]
                    dummies["mla" if is_mla else "not mla"] = asked
    prefill.die()
    yield {"differences": differences, "dummies": dummies}


def decodes_that_pull_from_every_cp_rank(port: int) -> Iterator[dict[str, Any]]:
    """The switch comes from the real constructor here, so this also proves how we name it."""
    address = f"127.0.0.1:{port}"
    prefill = Prefill(Shape(cp=2), port).register_all()
    seen = {}
    for is_hybrid, all_cp in itertools.product((False, True), repeat=2):
        with envs.SGLANG_DISAGGREGATION_ALL_CP_RANKS_TRANSFER.override(all_cp):
            decode = harness.decode_rank(is_hybrid=is_hybrid)
        assert harness.is_ready(decode, address)
        harness.receive(decode, address, room=1)
        ours = DecodeRank(tp_size=1, engine_rank=0, is_hybrid_mla=is_hybrid, all_cp_ranks=all_cp)
        seen[f"hybrid {is_hybrid}, all CP {all_cp}"] = {
            "theirs": decode.enable_all_cp_ranks_for_transfer,
            "ours": ours.pulls_from_all_cp_ranks,
            "reached": [cp for cp in (0, 1) if prefill.frames((0, cp, 0, 0))],
        }
    yield seen


def decodes_that_read_kv_differently(port: int) -> Iterator[dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    Prefill(Shape(), port).register_all(page_size=64, dtype="fp8_e4m3")
    agreeing = harness.decode_rank(page_size=64, dtype="fp8_e4m3")
    ready = harness.is_ready(agreeing, address)
    said = {}
    for name, page_size, dtype in (("page_size", 32, "fp8_e4m3"), ("dtype", 64, "auto")):
        try:
            harness.decode_rank(page_size=page_size, dtype=dtype).try_ensure_parallel_info(address)
        except RuntimeError as refusal:
            said[name] = str(refusal)
    yield {"agreeing_is_ready": ready, "refusals": said}
