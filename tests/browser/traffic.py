"""A fleet that is really used: ranks that listen, and clients that look them up and open rooms, at an even pace."""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.supervisor.conftest import Up
from tests.support.processes import Child

BEAT_SECONDS = 0.1
LOOK_UPS, ROOMS = 80, 21
"""How many of each a beat."""

QUERY = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"


@contextmanager
def used(up: Up, log: Path, instance: str = "busy") -> Iterator[None]:
    """The control plane is in use while the block runs."""
    kv = up.ports["PDCP_KV_PORT"]
    command = [sys.executable, "manage.py", "simulate", "--instance", instance, "--url", f"http://127.0.0.1:{kv}"]
    engine = f"http://127.0.0.1:{up.ports['PDCP_ENGINE_INFO_PORT']}"
    ranks = Child([*command, "--engine-url", engine, "--dp", "2", "--tp", "4"], env=up.env, log=log)
    enough, going = threading.Event(), threading.Event()
    clients = threading.Thread(target=_go_on, args=(kv, instance, enough, going), daemon=True)
    clients.start()
    try:
        assert going.wait(60), "the ranks did not register"
        yield
    finally:
        enough.set()
        clients.join(10)
        ranks.kill9()


def _go_on(port: int, instance: str, enough: threading.Event, going: threading.Event) -> None:
    read = f"GET /i/{instance}/route?{QUERY} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    rooms = itertools.count(4_611_686_018_427_000_000)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as wire:
        # Before the first rank is there nobody knows the instance, and to ask for it would be refused.
        known = False
        while not known and not enough.wait(1):
            wire.sendall(read)
            known = b" 200 " in wire.recv(65_536)[:20]
        going.set()
        while not enough.wait(BEAT_SECONDS):
            for _ in range(LOOK_UPS):
                wire.sendall(read)
                wire.recv(65_536)
            for room in itertools.islice(rooms, ROOMS):
                body = json.dumps({"bootstrap_room": room, "dp_rank": room % 2}).encode()
                head = f"POST /i/{instance}/register_dp_rank HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
                wire.sendall(head.encode() + body)
                wire.recv(65_536)
