"""Weights from a seed into a module, verified, beside a raw socket copy of the same bytes, in turns in one run."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

import psutil
import torch

from tests.bench.cases import Plan
from tests.bench.moving import RECEIVER, port_of, seconds_of
from tests.bench.report import Bar, Row, plain
from tests.bench.servers import SQLITE, Stable
from workers.sdk import Client, ControlPlane
from workers.transfer.engine import open_engine
from workers.transfer.memory import Segment
from workers.weights import Shard
from workers.weights.holding import Holding
from workers.weights.pull import Pull
from workers.weights.sample import SampleShard
from workers.weights.seed import Seed

HIDDEN = 4096
LAYER_BYTES = 2 * HIDDEN * (HIDDEN + 1)
LAYERS = 30
"""1.0 GB, as a rank of a large model has it: matrices of 34 MB."""
COPIES = 4
"""The seed, the replica, the receiver of the raw copy, and as much left for everybody else."""
TURNS = 5


def weights(stable: Stable, plan: Plan) -> Iterator[Row]:
    server = stable.start(SQLITE)
    layers = max(2, min(LAYERS, psutil.virtual_memory().available // (COPIES * LAYER_BYTES)))
    ours, theirs, size = _both(server.url("engine").removeprefix("http://"), layers)
    stable.stop(server)
    yield plain(
        f"{size / 1e9:.1f} GB of weights pulled and verified through Mooncake, against a raw socket",
        "TCP",
        "GB/s",
        ours,
        theirs,
        bar=Bar(at_least=0.5),
        of_ratio=True,
        note="found through the control plane, every byte by digest; both on loopback, medians of turns",
    )


def _both(engine_info: str, layers: int) -> tuple[float, float, int]:
    """GB/s of a whole pull, from the question to the last digest, and of the socket; and the bytes."""
    shard = Shard()
    original, copy = (SampleShard(shard, layers=layers, hidden=HIDDEN, device="meta") for _ in range(2))
    # Into memory that is there: both sides were touched before anything is measured.
    here, there = Holding.into(original), Holding.into(copy)
    noise = torch.frombuffer(bytearray(os.urandom(2**24)), dtype=torch.bfloat16)
    for parameter in original.parameters():
        flat = parameter.data.view(-1)
        for part in flat.split(len(noise)):
            part.copy_(noise[: len(part)])
    size = here.bytes
    engines = [open_engine("mooncake", "127.0.0.1") for _ in range(2)]
    plane = ControlPlane.at(engine_info, engine=engine_info, instance="bench-seed")
    seed = Seed(here, shard, engines[0])
    segment = here.regions[0]
    assert isinstance(segment, Segment)
    took: dict[str, list[float]] = {"ours": [], "socket": []}

    def pull() -> None:
        work = Pull(there, shard, engines[1], plane, ["bench-seed"], receiver="bench")
        loaded = work.run(within=120)
        work.close()
        assert loaded.verified and loaded.bytes == size

    try:
        with Client(plane) as client:
            seed.publish(client)
        command = [sys.executable, "-c", RECEIVER, str(size)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver,
            socket.create_connection(("127.0.0.1", port_of(receiver))) as raw,
            segment.view(0, size) as bytes_to_send,
        ):

            def send() -> None:
                raw.sendall(bytes_to_send)
                assert raw.recv(1) == b"!"

            for turn in range(TURNS + 1):
                for what, move in (("socket", send), ("ours", pull)):
                    seconds = seconds_of(move)
                    if turn:  # the first one connects and touches memory
                        took[what].append(seconds)
            raw.shutdown(socket.SHUT_WR)
            receiver.wait(10)
        return size / median(took["ours"]) / 1e9, size / median(took["socket"]) / 1e9, size
    finally:
        seed.close()
        for engine in engines:
            engine.close()
        gc.collect()
        for holding in (here, there):
            holding.close()
