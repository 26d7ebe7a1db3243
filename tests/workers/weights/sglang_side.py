"""A process that holds the real SGLang: a seed as its engines are, or its own loader. One JSON command a line.

["seed", kv_port, engine_info_port, number]   ["load", url, rank, number]
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from types import SimpleNamespace
from typing import Any

from tests.workers.weights.seeding import same, sample
from workers.transfer.mooncake import bound_environment


def engine() -> tuple[Any, str]:
    from mooncake.engine import TransferEngine

    made = TransferEngine()
    made.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "")
    return made, f"127.0.0.1:{made.get_rpc_port()}"


class Side:
    """What it made stays alive with it."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def seed(self, kv_port: int, port: int, number: int) -> str:
        from sglang.srt.model_executor.model_runner_components import remote_instance_weight_transporter as module
        from sglang.srt.model_loader.remote_instance_weight_loader_utils import register_memory_region_v1

        from tests.compat.harness import RealServers

        self._kept.append(RealServers(kv_port, port))
        model = sample(number=number)
        transfer, session = engine()
        # The globals of an engine's process, as far as this method asks for them.
        module.get_parallel = lambda: SimpleNamespace(dist_init_addr=None)
        module.get_model = lambda: SimpleNamespace(engine_info_bootstrap_port=port)
        publishing = SimpleNamespace(
            tp_rank=0, session_id=session, weight_info=register_memory_region_v1(model, transfer)
        )
        module.RemoteInstanceWeightTransporter._register_to_engine_info_bootstrap(publishing)
        self._kept += [model, transfer]
        return session

    def load(self, url: str, rank: int, number: int) -> list[bool]:
        from sglang.srt.model_loader.loader import RemoteInstanceModelLoader
        from sglang.srt.model_loader.remote_instance_weight_loader_utils import register_memory_region_v1

        model = sample(number=number + 1)
        transfer, _ = engine()
        register_memory_region_v1(model, transfer)
        done = RemoteInstanceModelLoader.load_model_from_remote_instance_by_transfer_engine(
            None, model, transfer, url, rank
        )
        self._kept += [model, transfer]
        return [done, same(model, sample(number=number))]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    bound_environment()
    os.environ["MC_FORCE_TCP"] = "1"
    # It makes SGLang importable on hosts without a GPU.
    import tests.compat.harness  # noqa: F401

    side = Side()
    answers.write("READY\n")
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        try:
            answer = {"said": getattr(side, word)(*arguments)}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        answers.write("ANSWER " + json.dumps(answer) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()
