"""Mooncake's own probe message: whose session answers, hangs, or is held by somebody else. With its real engine too."""

import asyncio
import socket
import struct
import sys
import threading
import time

import pytest
import uvloop

from controlplane.domain.contact import Contact
from controlplane.probes.mooncake import QUESTION, probe, split_session
from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env

ENGINE = """
import time
from mooncake.engine import TransferEngine
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
print("port", engine.get_rpc_port(), flush=True)
time.sleep(600)
"""


def frame(body: bytes) -> bytes:
    return struct.pack("<Q", len(body)) + body


@pytest.fixture
def peer():
    """`peer(answer)` -> the port of one that reads a question and answers so; None: it never does."""
    opened: list[socket.socket] = []

    def listen(answer: bytes | None) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def serve() -> None:
            while True:
                try:
                    conn, _ = listener.accept()
                except OSError:
                    return
                if answer is None:
                    opened.append(conn)
                    continue
                asked.append(conn.recv(100))
                conn.sendall(answer)
                conn.close()

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    asked: list[bytes] = []
    listen.asked = asked
    yield listen
    for one in opened:
        one.close()


def ask(port: int, timeout: float = 2.0) -> Contact:
    return asyncio.run(probe("127.0.0.1", port, timeout=timeout))


@pytest.mark.parametrize(
    ("answer", "contact"),
    [
        (frame(b'\x03{"status":"success"}'), Contact.UP),
        (frame(b'\x03{"status":"failed"}'), Contact.STRANGER),
        (frame(b'\x01{"status":"success"}'), Contact.STRANGER),
        (frame(b"\x03[]"), Contact.STRANGER),
        (frame(b"\x03" + b"[" * 4000), Contact.STRANGER),
        (frame(b"\x03"), Contact.STRANGER),
        (struct.pack("<Q", 2**60), Contact.STRANGER),
        (struct.pack("<Q", 0), Contact.STRANGER),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Contact.STRANGER),
        (struct.pack("<Q", 22) + b"\x03{", Contact.STRANGER),
        (b"SSH", Contact.STRANGER),
        (b"", Contact.SILENT),
    ],
)
def test_what_an_answer_means(peer, answer, contact):
    assert ask(peer(answer)) is contact
    assert peer.asked == [QUESTION]


def test_who_takes_the_connection_and_hangs_is_silent_within_the_bound(peer):
    began = time.monotonic()
    assert ask(peer(None), timeout=0.3) is Contact.SILENT
    assert time.monotonic() - began < 2 * slowness()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_who_takes_the_connection_and_resets_it_is_silent_on_either_loop(new_loop):
    """As a proxy does whose peer is gone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            conn, _ = listener.accept()
            conn.recv(100)
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.close()

        threading.Thread(target=serve, daemon=True).start()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(probe("127.0.0.1", listener.getsockname()[1], timeout=20.0)) is Contact.SILENT


def test_nobody_there_is_refused_and_what_cannot_be_reached_is_not():
    assert ask(free_port()) is Contact.REFUSED
    assert asyncio.run(probe("no-such-host.invalid", 1, timeout=5)) is Contact.UNREACHED


def test_sessions_are_addresses():
    assert split_session("10.0.0.1:17001") == ("10.0.0.1", 17001) and split_session("[fd00::1]:1") == ("fd00::1", 1)
    assert split_session("fd00::1:1") is None and split_session("a:0") is None and split_session("a:65536") is None


def test_a_real_transfer_engine_answers_hangs_and_is_gone(tmp_path):
    pytest.importorskip("mooncake", reason="mooncake is not installed here")
    child = Child([sys.executable, "-c", ENGINE], env=clean_env(MC_LOG_LEVEL="ERROR"), log=tmp_path / "engine.log")
    try:
        port = int(child.wait_for_line(r"^port (\d+)$", timeout=60)[1])
        before = child.log()
        assert [ask(port) for _ in range(3)] == [Contact.UP] * 3
        assert child.log() == before, "being asked is no error in its log"
        child.freeze()
        assert ask(port, timeout=0.5) is Contact.SILENT
        child.thaw()
        assert ask(port, timeout=10) is Contact.UP
        child.kill9()
        assert ask(port) is Contact.REFUSED
    finally:
        child.kill9()
