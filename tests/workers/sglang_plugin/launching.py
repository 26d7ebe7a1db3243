"""A launch of an engine: a first process that loads SGLang's plugins, and ranks that it spawns, as SGLang itself does.

    python -m tests.workers.sglang_plugin.launching '{"hurry": 0.2, "ranks": [{"tp": 0, "of": 1}]}'

Commands are lines `RANK {"register": {"port": 8998}}`, answers lines `ANSWER RANK {…}`. `hurry`: what a second between two
tries of a registration is made to last. Of a rank: `tp` and `of` how many; `env`, which replaces what it inherits; `lacks`,
names that RemoteInstanceWeightTransporter is made to lack, as in another version.
"""

from __future__ import annotations

import tests.compat.sgl_cpu  # noqa: F401  isort: skip  (before anything of SGLang)
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
import traceback
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any


def say_what_happens() -> None:
    logging.basicConfig(
        level=logging.INFO, format=f"%(levelname)s {os.getpid()} %(name)s: %(message)s", stream=sys.stderr, force=True
    )


class Rank:
    """What a spawned process does when it is told to."""

    def __init__(self, given: dict[str, Any], hurry: float) -> None:
        for name, value in given.get("env", {}).items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        from sglang.srt.disaggregation.common import conn
        from sglang.srt.model_executor.model_runner_components import (
            remote_instance_weight_transporter as transporters,
        )
        from sglang.srt.plugins import load_plugins

        from tests.compat import harness

        for name in given.get("lacks", []):
            delattr(transporters.RemoteInstanceWeightTransporter, name)
        conn.time = SimpleNamespace(
            time=time.time,
            monotonic=time.monotonic,
            perf_counter=time.perf_counter,
            sleep=lambda seconds: time.sleep(seconds * hurry),
        )
        load_plugins()
        self._harness, self._conn, self._transporters = harness, conn, transporters
        self.tp, self.size = given["tp"], given["of"]
        self.rank: Any = None

    def register(self, port: int) -> dict[str, Any]:
        begun = time.monotonic()
        prefill = self._harness.Prefill(self._harness.Shape(tp=self.size), port)
        self.rank = prefill.register((0, 0, self.tp, 0))
        return {
            "took": time.monotonic() - begun,
            "port": self.rank.rank_port,
            "token": os.environ.get("PD_LAUNCH_TOKEN"),
        }

    def fails(self, port: int, room: int, reason: str) -> str:
        """A request of this rank that fails as SGLang says it."""
        shape = self._harness.Shape(tp=self.size)
        with (
            self._harness.published(disaggregation_bootstrap_port=port),
            self._harness._parallel(shape, cp=0, tp=self.tp, dp=0, pp=0, key=None),
        ):
            sender = self._conn.CommonKVSender(self.rank, f"127.0.0.1:{port}", room)
            self.rank.record_failure(room, reason)
            self.rank.update_status(room, 0)
            try:
                sender.failure_exception()
            except self._conn.KVTransferError as problem:
                return str(problem)
        return ""

    def weights(self, port: int, session: str, tensors: dict[str, list[int]]) -> None:
        with (
            self._harness.published(engine_info_bootstrap_port=port),
            self._harness.get_parallel().override(tp_rank=self.tp),
        ):
            transporter = self._transporters.RemoteInstanceWeightTransporter(get_model=lambda: None, gpu_id=0)
            transporter.session_id = session
            transporter.weight_info = {name: tuple(tensor) for name, tensor in tensors.items()}
            transporter._register_to_engine_info_bootstrap()


def time_the_end() -> None:
    """Say how long the plugin held its process up when that ended by itself."""
    from workers.sglang_plugin.background import Background

    close = Background.close

    def timed(background: Background) -> None:
        begun = time.monotonic()
        close(background)
        print(f"CLOSED IN {time.monotonic() - begun:.3f}", file=sys.stderr, flush=True)

    Background.close = timed  # type: ignore[method-assign]


def run_rank(given: dict[str, Any], hurry: float, pipe: Connection) -> None:
    say_what_happens()
    time_the_end()
    rank = Rank(given, hurry)
    pipe.send({"ready": os.getpid()})
    while (command := order(pipe)) != "end":
        ((name, arguments),) = command.items()
        try:
            pipe.send({"said": getattr(rank, name)(**arguments)})
        except BaseException:
            pipe.send({"failed": traceback.format_exc()})
    rank._harness.let_go()


def order(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        # The launch is gone; SGLang's ZeroMQ contexts would wait for ever.
        os._exit(1)


def filtered() -> list[str]:
    """What SGLang's own filter leaves when it names another plugin."""
    from sglang.srt.plugins import GENERAL_PLUGINS_GROUP, load_plugins_by_group

    os.environ["SGLANG_PLUGINS"] = "another"
    try:
        return list(load_plugins_by_group(GENERAL_PLUGINS_GROUP))
    finally:
        del os.environ["SGLANG_PLUGINS"]


def main() -> None:
    from sglang.srt.plugins import GENERAL_PLUGINS_GROUP, load_plugins, load_plugins_by_group

    say_what_happens()
    given = json.loads(sys.argv[1])
    load_plugins()
    seen = {"found": list(load_plugins_by_group(GENERAL_PLUGINS_GROUP)), "filtered": filtered()}
    spawn = multiprocessing.get_context("spawn")
    pipes = []
    for number, rank in enumerate(given["ranks"]):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=run_rank, args=(rank, given["hurry"], theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append((process, ours))
        threading.Thread(target=tell, args=(number, ours), daemon=True).start()
    print(f"LAUNCHED {json.dumps({**seen, 'token': os.environ.get('PD_LAUNCH_TOKEN')})}", flush=True)
    for line in sys.stdin:
        which, _, command = line.partition(" ")
        process, pipe = pipes[int(which)]
        pipe.send(json.loads(command))
        if json.loads(command) == "end":
            process.join(60)
            print(f"ANSWER {which} " + json.dumps({"said": process.exitcode}), flush=True)
    os._exit(0)


def tell(number: int, pipe: Connection) -> None:
    while True:
        try:
            print(f"ANSWER {number} {json.dumps(pipe.recv())}", flush=True)
        except EOFError:
            return


if __name__ == "__main__":
    main()
