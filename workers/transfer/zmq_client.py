"""The calling half of the portable backend: one DEALER socket a peer, several messages under way, a deadline for all of them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import zmq
from zmq.utils.monitor import parse_monitor_message

from controlplane.domain.errors import Refused
from workers.messaging.endpoint import Endpoint
from workers.messaging.sockets import new_context, new_socket
from workers.transfer import zmq_wire
from workers.transfer.blocks import Block, pieces
from workers.transfer.engine import PROBE_SECONDS
from workers.transfer.errors import BadBlocks, EngineLost, PeerSilent, TransferFailed
from workers.transfer.memory import view_at
from workers.transfer.zmq_wire import MAX_BYTES, Answer, Request, Result, Verb

UNDER_WAY = 4
"""Messages sent before the first is answered: enough to keep a fast network busy, 16 MiB at most."""
MAX_PEERS = 256
POLL_MS = 100
LOST = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
GREETED = zmq.EVENT_HANDSHAKE_SUCCEEDED


@dataclass(slots=True)
class _Link:
    lock: threading.Lock = field(default_factory=threading.Lock)
    socket: zmq.Socket[bytes] | None = None
    monitor: zmq.Socket[bytes] | None = None
    used_at: float = 0.0
    closing: bool = False

    def drop(self) -> None:
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(linger=0)
        if self.monitor is not None:
            self.monitor.close(linger=0)
        self.socket = self.monitor = None

    def lost(self) -> bool:
        while self.monitor is not None and self.monitor.poll(0):
            if parse_monitor_message(self.monitor.recv_multipart())["event"] != GREETED:
                return True
        return False


class Peers:
    """Calls to one peer wait for one another, within their own deadlines; calls to different peers do not."""

    def __init__(self) -> None:
        self._context = new_context()
        self._lock = threading.Lock()
        self._links: dict[str, _Link] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    def move(self, verb: Verb, session: str, blocks: Sequence[Block], timeout: float) -> None:
        """Raises TransferFailed, or BadBlocks (the peer refuses the memory)."""
        deadline = time.monotonic() + timeout
        try:
            to = Endpoint.parse(session)
        except Refused as why:
            raise PeerSilent(f"the session is no address: {why.sentence}") from None
        link = self._link(session)
        if not link.lock.acquire(timeout=timeout):
            raise TransferFailed(f"other transfers to {session} took the {timeout:g} s of this one", settled=True)
        try:
            link.used_at = time.monotonic()
            if link.socket is None or link.lost():
                self._connect(link, to, min(deadline, time.monotonic() + PROBE_SECONDS))
            self._exchange(link, verb, session, blocks, deadline)
        finally:
            link.lock.release()

    def close(self) -> None:
        """Calls that are under way end as if their peer had hung up."""
        with self._lock:
            self._closed = True
            links = list(self._links.values())
        for link in links:
            link.closing = True
        for link in links:
            with link.lock:
                link.drop()
        self._context.destroy(linger=0)

    def _link(self, session: str) -> _Link:
        with self._lock:
            if self._closed:
                raise EngineLost("the zmq engine is closed", settled=True)
            if session not in self._links and len(self._links) >= MAX_PEERS:
                for name, link in sorted(self._links.items(), key=lambda item: item[1].used_at):
                    if link.lock.acquire(blocking=False):
                        link.drop()
                        del self._links[name]
                        link.lock.release()
                        break
            return self._links.setdefault(session, _Link(used_at=time.monotonic()))

    def _connect(self, link: _Link, to: Endpoint, deadline: float) -> None:
        link.drop()
        if self._closed:
            raise EngineLost("the zmq engine is closed", settled=True)
        link.socket = new_socket(self._context, zmq.DEALER, ipv6=to.is_ipv6)
        link.socket.setsockopt(zmq.IMMEDIATE, 1)
        link.socket.setsockopt(zmq.RECONNECT_IVL, -1)
        link.monitor = link.socket.get_monitor_socket(LOST | GREETED)
        link.socket.connect(to.tcp)
        # Asked at least once: this process may have been away while the peer answered.
        while link.monitor.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            if parse_monitor_message(link.monitor.recv_multipart())["event"] != GREETED:
                break
            return
        link.drop()
        raise PeerSilent(f"the transfer engine at {to} does not answer")

    def _exchange(self, link: _Link, verb: Verb, session: str, blocks: Sequence[Block], deadline: float) -> None:
        waiting: dict[int, list[Block]] = {}
        refusal = ""
        batches = iter([[]]) if verb is Verb.PROBE else pieces(blocks, most_bytes=MAX_BYTES)
        begun, finished = False, False
        try:
            while not finished or waiting:
                if not finished and not refusal and len(waiting) < UNDER_WAY:
                    batch = next(batches, None)
                    if batch is None:
                        finished = True
                        continue
                    begun = True
                    self._send(link, verb, batch, waiting, deadline)
                    continue
                if refusal and not waiting:
                    break
                answer = self._answer(link, deadline)
                batch = waiting.pop(answer.number, None)
                if answer.result is Result.REFUSED:
                    refusal = bytes(answer.data).decode(errors="replace")[:1000]
                elif verb is Verb.READ and batch is not None:
                    _put(batch, memoryview(answer.data))
        except _Lost as why:
            # An answer to what was sent before must not be taken for one to the next call.
            link.drop()
            settled = verb is not Verb.WRITE or not begun
            raise TransferFailed(f"the {verb.name.lower()} at {session}: {why}", settled=settled) from None
        if refusal:
            raise BadBlocks(f"the transfer engine at {session} refuses: {refusal}")

    def _send(
        self, link: _Link, verb: Verb, batch: list[Block], waiting: dict[int, list[Block]], deadline: float
    ) -> None:
        assert link.socket is not None
        number = next(self._numbers)
        ranges = tuple((remote, length) for _, remote, length in batch)
        data = b"".join(view_at(local, length) for local, _, length in batch) if verb is Verb.WRITE else b""
        _wait(link, zmq.POLLOUT, deadline)
        try:
            link.socket.send_multipart(Request(verb, number, ranges, data).frames(), flags=zmq.NOBLOCK)
        except zmq.Again:
            raise _Lost("the peer hung up") from None
        waiting[number] = batch

    def _answer(self, link: _Link, deadline: float) -> Answer:
        assert link.socket is not None
        _wait(link, zmq.POLLIN, deadline)
        try:
            return zmq_wire.read_answer([frame.buffer for frame in link.socket.recv_multipart(copy=False)])
        except BadBlocks as why:
            raise _Lost(str(why)) from None


class _Lost(Exception):
    """The connection ended, or the time did."""


def _wait(link: _Link, event: int, deadline: float) -> None:
    """Until the socket can, or _Lost."""
    assert link.socket is not None and link.monitor is not None
    poller = zmq.Poller()
    poller.register(link.socket, event)
    poller.register(link.monitor, zmq.POLLIN)
    while True:
        if link.closing:
            raise _Lost("this engine was closed")
        left_ms = int((deadline - time.monotonic()) * 1000)
        ready = dict(poller.poll(min(POLL_MS, max(0, left_ms))))
        if link.socket in ready:
            return
        if link.monitor in ready and link.lost():
            raise _Lost("the peer hung up")
        if left_ms <= 0:
            raise _Lost("the time was over; its process may be frozen")


def _put(batch: Sequence[Block], data: memoryview) -> None:
    for (local, _, length), part in zip(batch, _cut(batch, data), strict=True):
        view_at(local, length)[:] = part


def _cut(batch: Sequence[Block], data: memoryview) -> Iterator[memoryview]:
    if len(data) != sum(length for _, _, length in batch):
        raise _Lost("the peer sent another number of bytes than it was asked for")
    at = 0
    for _, _, length in batch:
        yield data[at : at + length]
        at += length
