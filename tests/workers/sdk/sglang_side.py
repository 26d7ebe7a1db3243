"""A process that holds the real SGLang: its own servers, prefill ranks and decode ranks, one JSON command a line.

["serve", kv_port, engine_port]   ["stop"]   ["prefill", kv_port, shape]   ["decode", address, tp, rank, mla, dp]
["query", address, rooms]         ["loader", address, rank]
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any


class Side:
    def __init__(self) -> None:
        from tests.compat import harness

        self._harness = harness
        self._servers: Any = None

    def serve(self, kv_port: int, engine_port: int) -> None:
        self._servers = self._harness.RealServers(kv_port, engine_port)

    def stop(self) -> None:
        self._servers.close()

    def prefill(self, port: int, shape: dict[str, int]) -> dict[str, int]:
        ranks = self._harness.Prefill(self._harness.Shape(**shape), port).register_all().ranks
        return {".".join(map(str, slot)): rank.rank_port for slot, rank in ranks.items()}

    def decode(self, address: str, tp: int, rank: int, mla: bool, dp: int) -> list[Any]:
        decode = self._harness.decode_rank(tp=tp, rank=rank, is_mla=mla)
        assert self._harness.is_ready(decode, address), "not ready"
        receiver = self._harness.receive(decode, address, room=7, dp=dp)
        infos = receiver.bootstrap_infos
        return [[info["rank_ip"], info["rank_port"], info["is_dummy"]] for info in infos]

    def query(self, address: str, rooms: list[int]) -> Any:
        return self._harness.CommonKVReceiver.query_prefill_dp_ranks(address, rooms)

    def loader(self, address: str, rank: int) -> Any:
        import requests

        found = requests.get(f"http://{address}/get_transfer_engine_info", params={"rank": rank}, timeout=5)
        return found.json()["remote_instance_transfer_engine_info"]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    side = Side()
    answers.write("READY\n")
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        try:
            answer = {"said": getattr(side, word)(*arguments)}
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        answers.write("ANSWER " + json.dumps(answer) + "\n")
    # SGLang's ZeroMQ contexts would wait for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
