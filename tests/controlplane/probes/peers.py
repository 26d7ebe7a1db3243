"""Real peers for probes to meet: each a context manager that yields the port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import zmq

from tests.support.ports import free_port


@contextlib.contextmanager
def pull(host: str = "127.0.0.1") -> Iterator[int]:
    """A rank's socket as SGLang opens it. Its port is one that nobody else takes once it is closed."""
    port = free_port(host)
    with zmq.Context() as context, context.socket(zmq.PULL) as listener:
        listener.setsockopt(zmq.LINGER, 0)
        if ":" in host:
            listener.setsockopt(zmq.IPV6, 1)
            host = f"[{host}]"
        listener.bind(f"tcp://{host}:{port}")
        yield port


@contextlib.contextmanager
def speechless(*, backlog: int = 16, port: int = 0) -> Iterator[int]:
    """The kernel accepts, nobody reads."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(backlog)
        yield listener.getsockname()[1]


@contextlib.contextmanager
def full(port: int = 0) -> Iterator[int]:
    """A listener whose backlog is full: further connects get no answer at all."""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(speechless(backlog=0, port=port))
        for _ in range(4):
            waiting = stack.enter_context(contextlib.closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


FROZEN_RANK = """
import sys, time, zmq
listener = zmq.Context().socket(zmq.PULL)
listener.bind(f"tcp://127.0.0.1:{sys.argv[1]}")
print("up", flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def rank_process() -> Iterator[tuple[int, subprocess.Popen]]:
    """A rank in a process of its own, to be stopped or killed."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", FROZEN_RANK, str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        yield port, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()
        process.stdout.close()
