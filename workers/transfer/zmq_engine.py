"""The portable backend: blocks over ZeroMQ, between hosts that have nothing but pyzmq.

A thread serves this side's memory; callers talk to peers over sockets of their own. Peers name memory by numbers drawn at random
for each registration, so a number from before a restart of the process at the same port is refused instead of meaning other
memory. As with Mooncake there is no authentication: the network between ranks must be trusted.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence

import zmq

from workers.messaging.sockets import bind, new_context, new_socket
from workers.transfer import zmq_wire
from workers.transfer.blocks import Block
from workers.transfer.engine import CALL_SECONDS, PROBE_SECONDS
from workers.transfer.errors import BadBlocks, EngineLost, TransferFailed
from workers.transfer.memory import Region, Regions, view_at
from workers.transfer.zmq_client import Peers
from workers.transfer.zmq_wire import Answer, Request, Result, Verb

POLL_MS = 100
# The numbers of a region stay below 2^63 with all of its bytes, and begin at a page.
BASES = range(2**44, 2**62, 4096)


class ZmqEngine:
    """A `TransferEngine`. Memory of this process only; any region will do."""

    kind = "zmq"

    def __init__(self, host: str, port: int = 0) -> None:
        self._host = host
        self._own, self._served = Regions(), Regions()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._peers = Peers()
        self._start(port)

    @property
    def session(self) -> str:
        return self._session

    @property
    def alive(self) -> bool:
        return self._server is not None

    def register(self, region: Region) -> int:
        with self._lock:
            self._own.add(region)
            base = BASES[secrets.randbelow(len(BASES))]
            self._served.add(region, base)
            return base

    def base(self, region: Region) -> int:
        return self._served.base(region)

    def unregister(self, region: Region) -> None:
        with self._lock:
            self._own.drop(region)
            self._served.drop(region)

    def write(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self._move(Verb.WRITE, session, blocks, timeout)

    def read(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self._move(Verb.READ, session, blocks, timeout)

    def probe(self, session: str, *, timeout: float = PROBE_SECONDS) -> bool:
        try:
            self._peers.move(Verb.PROBE, session, (), timeout)
        except TransferFailed:
            return False
        return True

    def reset(self) -> str:
        """New sockets at a new port: what is still on its way to the old one is thrown away by the kernel."""
        with self._lock:
            regions = list(self._own)
            self._stop()
            self._peers = Peers()
            self._served = Regions()
            for region in regions:
                self._served.add(region, BASES[secrets.randbelow(len(BASES))])
            self._start(0)
            return self._session

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _start(self, port: int) -> None:
        self._server = _Server(self._host, port, self._served)
        self._session = self._server.session

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        self._peers.close()

    def _move(self, verb: Verb, session: str, blocks: Sequence[Block], timeout: float) -> None:
        if self._server is None:
            raise EngineLost("the zmq engine is closed", settled=True)
        for local, _, length in blocks:
            self._own.translate(local, length)
        self._peers.move(verb, session, blocks, timeout)


class _Server:
    """A thread with a ROUTER socket, which reads and writes registered memory for peers."""

    def __init__(self, host: str, port: int, served: Regions) -> None:
        self._served = served
        self._context = new_context()
        self._socket = new_socket(self._context, zmq.ROUTER, ipv6=":" in host)
        try:
            self.session = str(bind(self._socket, host, port))
        except zmq.ZMQError as why:
            self._context.destroy(linger=0)
            raise EngineLost(
                f"the zmq engine cannot listen on {host} port {port or 'any'}: {why}", settled=True
            ) from None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"zmq engine {self.session}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._socket.poll(POLL_MS):
                sender, *frames = self._socket.recv_multipart(copy=False)
                answer = self._answer([frame.buffer for frame in frames])
                self._socket.send_multipart([sender.bytes, *answer.frames()], copy=False)
        self._context.destroy(linger=0)

    def _answer(self, frames: Sequence[memoryview]) -> Answer:
        number = 0
        try:
            request = zmq_wire.read_request(frames)
            number = request.number
            return Answer(Result.DONE, number, self._do(request))
        except BadBlocks as why:
            return Answer(Result.REFUSED, number, str(why).encode())

    def _do(self, request: Request) -> bytes:
        # All ranges are checked before the first is written.
        places = [(self._served.translate(base, length), length) for base, length in request.ranges]
        if request.verb is Verb.READ:
            return b"".join(view_at(address, length) for address, length in places)
        at = 0
        data = memoryview(request.data)
        for address, length in places:
            view_at(address, length)[:] = data[at : at + length]
            at += length
        return b""
