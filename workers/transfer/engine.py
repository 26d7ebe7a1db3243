"""What every backend that moves bytes can do, and how one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workers.transfer.blocks import Block
from workers.transfer.errors import NotInstalled
from workers.transfer.memory import Region

CALL_SECONDS = 8.0
"""A call of an engine ends within this time and its probe (2 s): 10 s in all, whatever the peer does."""
PROBE_SECONDS = 2.0
BACKENDS = ("mooncake", "zmq", "fake")


class TransferEngine(Protocol):
    """Moves blocks between registered memory here and registered memory of a peer's engine.

    All methods may be called from any thread. Local addresses are those of this process (`region.address` + offset); remote ones
    are what the peer's `register` returned (+ offset), which need not be addresses at all. Blocks of one call are not ordered;
    calls that follow one another are.
    """

    kind: str

    @property
    def session(self) -> str:
        """`host:port` by which peers name this engine. It changes with `reset`."""
        ...

    @property
    def alive(self) -> bool:
        """False once the engine's process was lost; `reset` starts another."""
        ...

    def register(self, region: Region) -> int:
        """-> the number by which peers name the region's first byte. Raises BadBlocks when it overlaps another."""
        ...

    def base(self, region: Region) -> int:
        """What `register` returned, or would return since the last `reset`."""
        ...

    def unregister(self, region: Region) -> None: ...

    def write(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        """Return when all bytes are in the peer's memory. Raises BadBlocks, or TransferFailed, whose `settled` says whether
        the memory may be used again."""
        ...

    def read(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        """As `write`, from the peer's memory into ours."""
        ...

    def probe(self, session: str, *, timeout: float = PROBE_SECONDS) -> bool:
        """Whether an engine answers there; nothing is begun."""
        ...

    def reset(self) -> str:
        """End everything that is under way and start anew with the same regions: afterwards nothing that began before reads or
        writes memory of this side. -> the new session, which peers must be told."""
        ...

    def close(self) -> None:
        """As `reset`, without starting anew. A second call does nothing."""
        ...


def open_engine(backend: str, host: str) -> TransferEngine:
    """`mooncake`: real, over TCP, in a child process. `zmq`: portable, no library but pyzmq. `fake`: moves nothing.

    `host`: the address of this host on which the engine listens and by which peers reach it. Raises NotInstalled with what to
    install. On hosts with RDMA or GPU memory use `workers.transfer.mooncake.MooncakeEngine` itself.
    """
    if backend == "mooncake":
        from workers.transfer.isolated import IsolatedMooncake

        return IsolatedMooncake(host)
    if backend == "zmq":
        from workers.transfer.zmq_engine import ZmqEngine

        return ZmqEngine(host)
    if backend == "fake":
        from workers.transfer.fake import FakeEngine

        return FakeEngine()
    raise NotInstalled(f"there is no transfer backend {backend!r}; there are {', '.join(BACKENDS)}")
