"""Seed ranks publish where their weights lie; a loader asks for them."""

from collections.abc import Iterator
from typing import Any

from sglang.srt.model_executor.model_runner_components.remote_instance_weight_transporter import (
    RemoteInstanceWeightTransporter,
)
from sglang.srt.model_loader.remote_instance_weight_loader_utils import (
    get_remote_instance_transfer_engine_info_per_rank,
)
from sglang.srt.runtime_context import get_parallel

from tests.compat import harness

RANKS = 4


def register_and_load(engine_port: int) -> Iterator[dict[str, Any]]:
    wanted = {}
    for rank in range(RANKS):
        with (
            harness.published(engine_info_bootstrap_port=engine_port),
            get_parallel().override(tp_size=RANKS, attn_tp_size=RANKS, moe_tp_size=RANKS, tp_rank=rank),
        ):
            transporter = RemoteInstanceWeightTransporter(get_model=lambda: None, gpu_id=0)
            transporter.session_id = f"127.0.0.1:{12345 + rank}"
            # Addresses beyond 2^53 must come back exactly, zero-size entries must not be lost.
            transporter.weight_info = {
                **{f"model.layers.{i}.w": (2**62 + 10 * rank + i, 4096 * 4096, 2) for i in range(10)},
                "empty": (0, 0, 2),
            }
            transporter._register_to_engine_info_bootstrap()
        weights = {name: list(place) for name, place in transporter.weight_info.items()}
        wanted[rank] = [transporter.session_id, weights]
    url = f"http://127.0.0.1:{engine_port}"
    got = {rank: get_remote_instance_transfer_engine_info_per_rank(url, rank) for rank in range(RANKS)}
    yield {
        "wanted": wanted,
        "got": got,
        "unknown_rank": get_remote_instance_transfer_engine_info_per_rank(url, RANKS),
    }
