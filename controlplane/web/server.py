"""The web process: uvicorn around the ASGI application, on a socket that is opened first."""

import asyncio
import gc
import os
import signal
import socket
import time
from types import FrameType

import uvicorn
from django.conf import settings

from controlplane.web import health

from .patience import Patient

GRACE_SECONDS = 5
KEEP_ALIVE_SECONDS = 90
"""For an idle connection: longer than proxies and load balancers keep theirs (a minute), or what they send on one that is
just being closed comes to nothing, and people are told 502."""

STUCK_MILLISECONDS = 30_000
# The stream takes no messages at all.
MOST_SOCKET_BYTES = 64 * 1024


class Server(uvicorn.Server):
    """Says when it serves, and tells /readyz when it is about to stop: a while before it does, unless asked twice."""

    asked_to_stop = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # All that was imported lives as long as the process. A page of a large fleet makes so many rows that the
        # collector would walk all of it several times a page.
        gc.collect()
        gc.freeze()
        if sockets and not self.should_exit:
            print(f"web ready {url_of(sockets[0])}", flush=True)

    async def main_loop(self) -> None:
        await super().main_loop()
        until = time.monotonic() + settings.PDCP_STOP_DELAY_SECONDS
        while self.asked_to_stop < 2 and time.monotonic() < until:
            # Whoever sends requests goes on until it has seen /readyz: everything else is served as before.
            await asyncio.sleep(0.1)
            await self.on_tick(0)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.asked_to_stop += 1
        health.shutting_down.set()
        super().handle_exit(sig, frame)
        # uvicorn raises what it caught once more when it has stopped; asked to stop, we end with 0.
        self._captured_signals = [caught for caught in self._captured_signals if caught == signal.SIGINT]


def serve(listener: socket.socket) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # A client that takes nothing for so long is cut off, with all that lies in buffers for it. Connections inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MILLISECONDS)
    # Read by the library for WebSockets when it is loaded: a cookie that pages and API take is not to end the stream.
    os.environ.setdefault("WEBSOCKETS_MAX_LINE_LENGTH", str(Patient.head_bytes))
    Server(configured()).run(sockets=[listener])


def configured() -> uvicorn.Config:
    return uvicorn.Config(
        "controlplane.asgi:application",
        lifespan="off",
        http=Patient,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws_max_size=MOST_SOCKET_BYTES,
    )


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"
