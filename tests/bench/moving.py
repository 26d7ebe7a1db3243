"""KV pages through Mooncake, beside a raw socket copy of the same bytes, in turns in one run."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median

from tests.bench.cases import Plan
from tests.bench.report import Bar, Row, plain
from workers.transfer.blocks import Block
from workers.transfer.isolated import IsolatedMooncake
from workers.transfer.memory import Segment

BLOCKS = 1024
# 64 tokens of 8 KV heads of 128 elements in bfloat16, and an eighth of it: the share of a rank of TP 8.
PAGE_BYTES = {128: Bar(at_least=0.3), 16: Bar()}
LEAST_TURNS = 7
RECEIVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
peer, _ = server.accept()
whole = memoryview(bytearray(int(sys.argv[1])))
while True:
    at = 0
    while at < len(whole):
        count = peer.recv_into(whole[at:])
        if not count:
            sys.exit()
        at += count
    peer.sendall(b"!")
"""


def moving(plan: Plan) -> Iterator[Row]:
    for kib, bar in PAGE_BYTES.items():
        ours, theirs = _both(kib * 1024, max(LEAST_TURNS, plan.alternations))
        name = f"KV in {BLOCKS:,} scattered pages of {kib} KiB through Mooncake, against a raw socket"
        yield plain(
            name, "TCP", "GB/s", ours, theirs, bar=bar, of_ratio=True, note="both on loopback, medians of turns"
        )


def _both(page: int, turns: int) -> tuple[float, float]:
    """GB/s of Mooncake and of the socket, moving `BLOCKS` pages."""
    size = BLOCKS * page
    engines = [IsolatedMooncake("127.0.0.1") for _ in range(2)]
    # Pages lie scattered in pools of twice the size on either side.
    own, far = Segment(2 * size), Segment(2 * size)
    try:
        for segment in (own, far):
            segment.view()[:] = os.urandom(2**20) * (2 * size // 2**20)
        engines[0].register(own)
        base = engines[1].register(far)
        rng = random.Random(7)
        places = zip(rng.sample(range(2 * BLOCKS), BLOCKS), rng.sample(range(2 * BLOCKS), BLOCKS), strict=True)
        blocks: list[Block] = [(own.address + here * page, base + there * page, page) for here, there in places]
        command = [sys.executable, "-c", RECEIVER, str(size)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver,
            socket.create_connection(("127.0.0.1", port_of(receiver))) as raw,
            own.view(0, size) as bytes_to_send,
        ):

            def copy() -> None:
                raw.sendall(bytes_to_send)
                assert raw.recv(1) == b"!"

            took: dict[str, list[float]] = {"mooncake": [], "socket": []}
            for turn in range(turns + 1):
                for what, move in (
                    ("socket", copy),
                    ("mooncake", lambda: engines[0].write(engines[1].session, blocks)),
                ):
                    seconds = seconds_of(move)
                    if turn:  # the first one connects
                        took[what].append(seconds)
            raw.shutdown(socket.SHUT_WR)
            receiver.wait(10)
        return tuple(size / median(each) / 1e9 for each in took.values())  # type: ignore[return-value]
    finally:
        for engine in engines:
            engine.close()
        for segment in (own, far):
            segment.close()


def port_of(receiver: subprocess.Popen[str]) -> int:
    assert receiver.stdout is not None
    return int(receiver.stdout.readline())


def seconds_of(move: Callable[[], None]) -> float:
    began = time.perf_counter()
    move()
    return time.perf_counter() - began
