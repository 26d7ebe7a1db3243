"""An engine's processes, without its model: a main process that starts one process a rank (multiprocessing, spawn), each of
which binds a ZeroMQ socket, registers as SGLang's `_register_topology_row` does, and lives until the engine ends.

    python -m tests.workers.relay.engine HOST:PORT TP [FIELD=VALUE …]

Prints `engine ready PID:PORT …` once all ranks are acknowledged. SIGTERM ends all of it; `tp0`, … on stdin kills that rank.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import urllib.request
from multiprocessing.connection import Connection
from typing import Any

import zmq

TRIES = 5


def rank(at: str, body: dict[str, Any], told: Connection) -> None:
    socket = zmq.Context().socket(zmq.PULL)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    data = json.dumps({**body, "rank_port": port}).encode()
    for attempt in range(TRIES):
        request = urllib.request.Request(f"http://{at}/route", data, {"content-type": "application/json"}, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                assert answer.status == 200
        except OSError:
            time.sleep(min(2**attempt, 4))
        else:
            told.send((os.getpid(), port))
            break
    else:
        # As SGLang does: it serves on, unregistered.
        told.send((os.getpid(), 0))
    while True:
        socket.recv_multipart()


def main() -> None:
    at, tp, *more = sys.argv[1:]
    spawn = multiprocessing.get_context("spawn")
    children, told = [], []
    for n in range(int(tp)):
        ours, theirs = spawn.Pipe()
        fields = {name: json.loads(value) for name, _, value in (word.partition("=") for word in more)}
        children.append(
            spawn.Process(
                target=rank, args=(at, {**BODY, "attn_tp_size": int(tp), "attn_tp_rank": n, **fields}, theirs)
            )
        )
        told.append(ours)
        children[-1].start()

    def end(*_: object) -> None:
        for child in children:
            child.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("engine ready", *(f"{pid}:{port}" for pid, port in (pipe.recv() for pipe in told)), flush=True)
    for line in sys.stdin:
        children[int(line.strip().removeprefix("tp"))].kill()
    end()


BODY = {
    "attn_cp_size": 1, "attn_cp_rank": 0, "attn_dp_size": 1, "attn_dp_rank": 0, "pp_size": 1, "pp_rank": 0,
    "system_dp_size": 1, "system_dp_rank": 0, "rank_ip": "127.0.0.1", "page_size": 64, "kv_cache_dtype": "auto",
    "load_balance_method": "follow_bootstrap_room", "prefill_http_port": 30000,
}  # fmt: skip

if __name__ == "__main__":
    main()
