"""The options that every ZeroMQ socket between ranks has: bounded in time, in messages and in bytes, nothing lingers.

Source: `CommonKVManager._connect` and `get_zmq_socket_on_host` of SGLang 0.5.23, with the bounds that they lack.
"""

from __future__ import annotations

import zmq

from workers.messaging.endpoint import Endpoint

MAX_MESSAGES = 1000
"""Messages kept for one peer, on each side. A multipart message counts as one."""
MAX_FRAME_BYTES = 2**23
"""A longer frame ends the connection: 8 MiB, twice the largest list of pages."""
HANDSHAKE_MS = 5000
MAX_SOCKETS = 16384
KEEPALIVE = {
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 30,
    zmq.TCP_KEEPALIVE_INTVL: 5,
    zmq.TCP_KEEPALIVE_CNT: 3,
}
LIMITS = {
    zmq.LINGER: 0,
    zmq.RCVHWM: MAX_MESSAGES,
    zmq.SNDHWM: MAX_MESSAGES,
    zmq.MAXMSGSIZE: MAX_FRAME_BYTES,
    zmq.HANDSHAKE_IVL: HANDSHAKE_MS,
    **KEEPALIVE,
}


def new_context() -> zmq.Context[zmq.Socket[bytes]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    context.set(zmq.MAX_SOCKETS, MAX_SOCKETS)
    return context


def new_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, *, ipv6: bool) -> zmq.Socket[bytes]:
    socket = context.socket(kind)
    for option, value in LIMITS.items():
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.IPV6, int(ipv6))
    return socket


def bind(socket: zmq.Socket[bytes], host: str, port: int) -> Endpoint:
    """Bind to one address, never to all of them; port 0 takes a free one. -> where it listens.

    Raises Refused for an address that no rank can have (a wildcard among them), OSError (zmq.ZMQError) when it is taken.
    """
    wanted = Endpoint.at(host, port or 1)
    name = wanted.tcp if port else f"{wanted.tcp.rpartition(':')[0]}:*"
    socket.bind(name)
    bound = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return Endpoint(wanted.host, int(bound.rpartition(":")[2]))
