"""Mooncake's transfer engine in this process. The only module that imports mooncake, and only when an engine is made.

Use it directly on hosts with RDMA or GPU memory; elsewhere `isolated` runs it in a child process, which bounds what it may do to
this one (calls that block for a minute, batches that go on writing after they failed). Its sockets know no authentication.
Source: `MooncakeTransferEngine` in sglang/srt/distributed/device_communicators/mooncake_transfer_engine.py (SGLang 0.5.23) and
measurements with mooncake 0.3.13.post1.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.domain.addresses import bracketed
from controlplane.domain.errors import Refused
from workers.messaging.endpoint import Endpoint
from workers.transfer.blocks import Block, batches
from workers.transfer.engine import CALL_SECONDS, PROBE_SECONDS
from workers.transfer.errors import BadBlocks, EngineLost, NotInstalled, PeerSilent, TransferFailed
from workers.transfer.memory import Region, Regions

BOUNDS = {
    "MC_LOG_LEVEL": "ERROR",
    "MC_TRANSFER_TIMEOUT": "5",
    "MC_TCP_PROGRESS_TIMEOUT_SEC": "5",
    "MC_TCP_STATUS_TIMEOUT_SEC": "5",
    "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER": "65535",
    "MC_TE_METADATA_REFRESH_INTERVAL_SECONDS": "2",
}
"""Read once by the library: in the environment before its import, unless somebody set them already."""
FRESH_SECONDS = 1.0
"""A peer that answered so recently is not asked again before a transfer."""
LARGE_BYTES = 8 * 2**20
NAP_SECONDS = 0.0003
NO_BATCH = 2**64 - 1
PROBE = struct.pack("<QB", 3, 3) + b"{}"
MAX_ANSWER = 4096
NOT_BEGUN = -100
CODES = {
    -1: "it failed or timed out",
    NOT_BEGUN: "its time was over before it began",
    -3: "memory is not registered there",
    -7: "memory overlaps what is registered",
}


def bound_environment(environ: dict[str, str] | None = None) -> None:
    """Set the bounds in `environ` (the process's own by default)."""
    for name, value in BOUNDS.items():
        (os.environ if environ is None else environ).setdefault(name, value)


def probe(session: str, *, timeout: float = PROBE_SECONDS) -> bool:
    """The library's own probe message (type 3), with a real deadline and without its engine-wide lock.

    `send_probe` and the first transfer to a peer that is silent block a minute, and everything else with them.
    """
    deadline = time.monotonic() + timeout
    try:
        to = Endpoint.parse(session)
        with socket.create_connection((to.host, to.port), timeout) as peer:
            peer.sendall(PROBE)
            (length,) = struct.unpack("<Q", _receive(peer, 8, deadline))
            answer = _receive(peer, min(length, MAX_ANSWER), deadline)
            return answer[0] == 3 and json.loads(answer[1:]).get("status") == "success"
    except (OSError, ValueError, EOFError, AttributeError, Refused):
        return False


class MooncakeEngine:
    """`protocol`: tcp, rdma or efa; `device`: the RDMA devices of this GPU. Never use it after a fork."""

    kind = "mooncake"

    def __init__(self, host: str, *, protocol: str = "tcp", device: str = "") -> None:
        self._host, self._protocol, self._device = host, protocol, device
        self._regions = Regions()
        self._answered: dict[str, float] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._engine: Any = None
        self._start()

    @property
    def session(self) -> str:
        return self._session

    @property
    def alive(self) -> bool:
        return self._engine is not None

    def register(self, region: Region) -> int:
        engine = self._running()
        with self._lock:
            self._regions.add(region)
            code = engine.batch_register_memory([region.address], [region.length])
            if code:
                self._regions.drop(region)
                raise BadBlocks(f"mooncake does not register {region.length} bytes: {_meaning(code)}")
        return region.address

    def base(self, region: Region) -> int:
        return self._regions.base(region)

    def unregister(self, region: Region) -> None:
        engine = self._running()
        with self._lock:
            self._regions.drop(region)
            engine.batch_unregister_memory([region.address])

    def write(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self._move("write", session, blocks, timeout)

    def read(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self._move("read", session, blocks, timeout)

    def probe(self, session: str, *, timeout: float = PROBE_SECONDS) -> bool:
        return probe(session, timeout=timeout)

    def reset(self) -> str:
        regions = list(self._regions)
        self._stop()
        self._start()
        for region in regions:
            self.register(region)
        return self._session

    def close(self) -> None:
        self._stop()

    def _start(self) -> None:
        bound_environment()
        if self._protocol == "tcp":
            os.environ.setdefault("MC_FORCE_TCP", "1")
        if ":" in self._host:
            os.environ.setdefault("MC_USE_IPV6", "1")
        try:
            from mooncake.engine import TransferEngine
        except ImportError as why:
            raise NotInstalled(
                f"mooncake cannot be loaded ({why}). Install mooncake-transfer-engine on hosts with CUDA, elsewhere "
                "mooncake-transfer-engine-non-cuda; Debian also needs libibverbs1, libnuma1 and libcurl4"
            ) from None
        engine = TransferEngine()
        # Calls before it is initialised crash the process, so nobody sees it earlier.
        if engine.initialize(bracketed(self._host), "P2PHANDSHAKE", self._protocol, self._device):
            raise EngineLost(f"mooncake does not start on {self._host} with {self._protocol}", settled=True)
        self._session = f"{bracketed(self._host)}:{engine.get_rpc_port()}"
        self._engine = engine

    def _stop(self) -> None:
        with self._lock:
            self._engine = None
            self._regions.clear()
            self._answered.clear()
        # Its destructor ends the threads that move bytes; until then a failed batch may go on.
        gc.collect()

    def _running(self) -> Any:
        if os.getpid() != self._pid:
            raise EngineLost("a mooncake engine cannot be used after a fork: spawn the process instead", settled=True)
        engine = self._engine
        if engine is None:
            raise EngineLost("the mooncake engine is closed", settled=True)
        return engine

    def _move(self, way: str, session: str, blocks: Sequence[Block], timeout: float) -> None:
        engine = self._running()
        for local, _, length in blocks:
            self._regions.translate(local, length)
        if time.monotonic() - self._answered.get(session, float("-inf")) > FRESH_SECONDS:
            if not probe(session):
                raise PeerSilent(f"the transfer engine at {session} does not answer")
            self._answered[session] = time.monotonic()
        move = engine.batch_transfer_sync_write if way == "write" else engine.batch_transfer_sync_read
        begin = engine.batch_transfer_async_write if way == "write" else engine.batch_transfer_async_read
        deadline = time.monotonic() + timeout
        for large in [block for block in blocks if block[2] >= LARGE_BYTES]:
            if code := _one(engine, begin, session, large, deadline):
                self._answered.pop(session, None)
                raise TransferFailed(
                    f"the {way} of {large[2]} bytes to {session}: {_meaning(code)}", settled=code == NOT_BEGUN
                )
        blocks = [block for block in blocks if block[2] < LARGE_BYTES]
        for batch in batches(blocks):
            if time.monotonic() > deadline:
                raise TransferFailed(f"the {way} to {session} took more than {timeout:g} s", settled=True)
            code = move(session, *map(list, zip(*batch, strict=True)))
            if code:
                self._answered.pop(session, None)
                raise TransferFailed(f"the {way} of {len(batch)} blocks to {session}: {_meaning(code)}", settled=False)
        self._answered[session] = time.monotonic()


def _one(engine: Any, begin: Callable[..., int], session: str, block: Block, deadline: float) -> int:
    """One large block: 0 when it is moved. As the synchronous call, which keeps a core busy for as long as it waits, and that
    core is missing where the bytes are to be checked meanwhile. (Only a batch of one may be asked about like this.)"""
    if time.monotonic() > deadline:
        return NOT_BEGUN
    local, remote, length = block
    batch = begin(session, [local], [remote], [length])
    if not 0 < batch < NO_BATCH:
        return -1
    while (state := engine.transfer_check_status(batch)) == 0:
        if time.monotonic() > deadline:
            return -1
        time.sleep(NAP_SECONDS)
    return 0 if state == 1 else -1


def _meaning(code: int) -> str:
    return f"{CODES.get(code, 'it failed')} (mooncake says {code})"


def _receive(peer: socket.socket, length: int, deadline: float) -> bytes:
    heard = b""
    while len(heard) < length:
        peer.settimeout(max(0.01, deadline - time.monotonic()))
        chunk = peer.recv(length - len(heard))
        if not chunk:
            raise EOFError
        heard += chunk
    return heard
