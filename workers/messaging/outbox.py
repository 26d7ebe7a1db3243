"""The PUSH sockets of a rank: one for each peer, made when needed, dropped when the peer is gone.

Source: `CommonKVManager._connect` and `CommonKVReceiver._connect` of SGLang 0.5.23. Two differences: a message is handed over
only when the peer has greeted (ZMQ_IMMEDIATE; SGLang's sender never learns that nobody was there), and a silent peer holds
up its own messages alone: while it is known to be silent they are refused at once.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import zmq
from zmq.utils.monitor import parse_monitor_message

from workers.messaging.endpoint import Endpoint
from workers.messaging.errors import Closed, Congested, Unreachable
from workers.messaging.sockets import new_context, new_socket

CONNECT_SECONDS = 2.0
SEND_SECONDS = 1.0
SULK_SECONDS = 1.0
"""A peer that kept a message waiting for its whole bound is not waited for again by those that follow, and then by one at a
time. A refusal costs nothing, so a rank that restarts at its port is reached by the next message."""
MAX_PEERS = 1024

GREETED = zmq.EVENT_HANDSHAKE_SUCCEEDED
NEVER: dict[int, str] = {
    zmq.EVENT_CLOSED: "nobody listens there",
    zmq.EVENT_DISCONNECTED: "it hung up before it greeted",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "it does not speak ZeroMQ",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "it does not speak ZeroMQ",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "it asks for credentials",
}
SILENT = "it accepts nothing, or does not greet"
WATCHED = functools.reduce(operator.or_, NEVER, GREETED)


@dataclass(slots=True)
class _Peer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    socket: zmq.Socket[bytes] | None = None
    monitor: zmq.Socket[bytes] | None = None
    line: int = 0
    used_at: float = 0.0
    opened_with: Sequence[bytes] | None = None
    sulk: Unreachable | Congested | None = None
    sulks_until: float = 0.0

    def sulks(self, problem: Unreachable | Congested) -> Unreachable | Congested:
        self.sulk, self.sulks_until = problem, time.monotonic() + SULK_SECONDS
        return problem

    def check(self, *, busy: bool = False) -> None:
        """Raises what was wrong a moment ago. `busy`: somebody finds out just now whether it still is."""
        if self.sulk is not None and (busy or time.monotonic() < self.sulks_until):
            raise type(self.sulk)(f"{self.sulk} (a moment ago; it is tried again soon)")

    def drop(self, *, linger_seconds: float = 0.0) -> None:
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(linger=int(linger_seconds * 1000))
        if self.monitor is not None:
            self.monitor.close(linger=0)
        self.socket = self.monitor = self.opened_with = None

    def is_lost(self) -> bool:
        """Whether it hung up since: SGLang's ranks take new ports when they restart, so nothing is tried again here."""
        while self.monitor is not None and self.monitor.poll(0):
            if parse_monitor_message(self.monitor.recv_multipart())["event"] != GREETED:
                return True
        return False


class Outbox:
    """`send` may be called from any thread. A message that was handed over may still be lost with the peer: every request has
    a deadline of its own."""

    def __init__(self, *, connect_seconds: float = CONNECT_SECONDS, send_seconds: float = SEND_SECONDS) -> None:
        self._connect_seconds, self._send_seconds = connect_seconds, send_seconds
        self._context = new_context()
        self._lines = itertools.count(1)
        self._lock = threading.Lock()
        self._peers: dict[Endpoint, _Peer] = {}
        self._closed = False

    def send(self, to: Endpoint, frames: Sequence[bytes], *, opening: Sequence[bytes] | None = None) -> int:
        """Hand one message over, within `connect_seconds + send_seconds` (3 s, and as long again behind another sender); to a
        peer that was silent a moment ago: at once, or not at all.
        -> the number of the connection that took it, never 0: see `is_open`.

        `opening`: a message that must come before this one on every new connection, and again when it changed: a registration.
        A peer that restarted at the same port is told it again. Raises Unreachable, Congested or Closed; then nothing was sent.
        """
        return self._hand_over(to, frames, opening)

    def connect(self, to: Endpoint) -> int:
        """See to it that there is a connection, and say nothing on it. Bounds, errors and result are those of `send`."""
        return self._hand_over(to, None, None)

    def is_open(self, to: Endpoint, line: int) -> bool:
        """Whether the connection `line` is still the one to this peer, as far as ZeroMQ noticed. Waits for nothing.

        False when the peer hung up, and also when the connection was given up for others: ask the peer then. A process that
        is stopped, and a cable that was cut, leave it open for as long as the kernel's keep-alive bears it (45 s).
        """
        peer = self._peers.get(to)
        if peer is None or peer.line != line:
            return False
        if not peer.lock.acquire(blocking=False):
            # Somebody sends just now, and would find out.
            return True
        try:
            if peer.socket is not None and peer.is_lost():
                peer.drop()
            return peer.socket is not None and peer.line == line
        finally:
            peer.lock.release()

    def _hand_over(self, to: Endpoint, frames: Sequence[bytes] | None, opening: Sequence[bytes] | None) -> int:
        deadline = time.monotonic() + self._connect_seconds + self._send_seconds
        peer = self._peer(to)
        peer.check(busy=peer.lock.locked())
        if not peer.lock.acquire(timeout=self._connect_seconds + self._send_seconds):
            raise Congested(f"{to} has kept another message waiting for longer than {self._send_seconds:g} s")
        try:
            if self._closed:
                raise Closed("the outbox is closed")
            if peer.socket is not None and peer.is_lost():
                peer.drop()
            peer.check()
            socket = peer.socket or self._connect(peer, to, deadline - self._send_seconds)
            peer.used_at = time.monotonic()
            try:
                if opening is not None and opening != peer.opened_with:
                    socket.send_multipart(opening)
                    peer.opened_with = opening
                if frames is not None:
                    socket.send_multipart(frames)
                peer.sulk = None
                return peer.line
            except zmq.Again:
                if peer.is_lost():
                    peer.drop()
                    raise Unreachable(f"{to} hung up") from None
                sentence = f"{to} took nothing for {self._send_seconds:g} s; its process may be frozen"
                raise peer.sulks(Congested(sentence)) from None
        finally:
            peer.lock.release()

    def forget(self, to: Endpoint) -> None:
        """Close the socket to a peer that is known to be gone; the next message connects anew."""
        with self._lock:
            peer = self._peers.pop(to, None)
        if peer is not None:
            with peer.lock:
                peer.drop()

    @property
    def peers(self) -> int:
        return len(self._peers)

    def close(self, *, linger_seconds: float = 0.0) -> None:
        """Messages that were handed over have `linger_seconds` to leave this process."""
        with self._lock:
            self._closed = True
            peers, self._peers = list(self._peers.values()), {}
        for peer in peers:
            with peer.lock:
                peer.drop(linger_seconds=linger_seconds)
        self._context.destroy(linger=0)

    def _peer(self, to: Endpoint) -> _Peer:
        with self._lock:
            if self._closed:
                raise Closed("the outbox is closed")
            if to not in self._peers and len(self._peers) >= MAX_PEERS:
                self._make_room()
            return self._peers.setdefault(to, _Peer(used_at=time.monotonic()))

    def _make_room(self) -> None:
        """Close the peer that was longest not used; one that is in use just now is passed over."""
        for to, peer in sorted(self._peers.items(), key=lambda item: item[1].used_at):
            if peer.lock.acquire(blocking=False):
                try:
                    peer.drop(linger_seconds=self._send_seconds)
                finally:
                    peer.lock.release()
                del self._peers[to]
                return

    def _connect(self, peer: _Peer, to: Endpoint, deadline: float) -> zmq.Socket[bytes]:
        # Making a socket fails where this process may open no more files.
        try:
            peer.socket = new_socket(self._context, zmq.PUSH, ipv6=to.is_ipv6)
            peer.socket.setsockopt(zmq.IMMEDIATE, 1)
            peer.socket.setsockopt(zmq.RECONNECT_IVL, -1)
            peer.socket.setsockopt(zmq.SNDTIMEO, int(self._send_seconds * 1000))
            peer.monitor = peer.socket.get_monitor_socket(WATCHED)
            peer.socket.connect(to.tcp)
            why_not = _greeting(peer.monitor, deadline)
        except zmq.ZMQError as error:
            why_not = str(error)
        if why_not or peer.socket is None:
            peer.drop()
            problem = Unreachable(f"{to} cannot be reached: {why_not}")
            raise peer.sulks(problem) if why_not == SILENT else problem
        peer.line = next(self._lines)
        return peer.socket


def _greeting(monitor: zmq.Socket[bytes], deadline: float) -> str:
    """Empty when the peer greeted, else why it will not."""
    # Asked at least once: this process may have been away while the peer answered.
    while monitor.poll(max(0, int((deadline - time.monotonic()) * 1000))):
        event = parse_monitor_message(monitor.recv_multipart())["event"]
        if event == GREETED:
            return ""
        if event in NEVER:
            return NEVER[event]
    return SILENT
