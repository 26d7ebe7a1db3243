"""What one probe sees of real peers."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import socket
import time

import pytest
import zmq
from aiohttp import web

from controlplane.domain.contact import Contact
from controlplane.probes.zmtp import GREETING, greet, greet_address
from tests.controlplane.probes import peers
from tests.support.ports import free_port
from tests.support.processes import freeze

# Whoever answers, answers at once: so much only a machine with other work to do can take. Who is to be found silent
# is given no more than a second.
PATIENCE, SILENCE = 20.0, 1.0


def ask(host: str, port: int, timeout: float = PATIENCE) -> Contact:
    return asyncio.run(greet(host, port, timeout=timeout))


def test_a_pull_socket_greets_and_a_closed_port_refuses():
    with peers.pull() as port:
        assert ask("127.0.0.1", port) is Contact.UP
    assert ask("127.0.0.1", port) is Contact.REFUSED


def test_ipv6_loopback_is_asked_like_ipv4():
    with peers.pull("::1") as port:
        assert ask("::1", port) is Contact.UP
    assert ask("::1", port) is Contact.REFUSED


def test_a_name_is_up_when_one_of_its_addresses_is():
    with peers.pull() as port:
        assert ask("localhost", port) is Contact.UP
    assert ask("localhost", port) is Contact.REFUSED


def test_a_name_that_does_not_resolve_is_unreached_not_refused():
    assert ask("no-such-rank.invalid", 4100) is Contact.UNREACHED


def test_a_listener_that_never_greets_is_silent_and_bounded():
    with peers.speechless() as port:
        began = time.monotonic()
        assert ask("127.0.0.1", port, timeout=SILENCE) is Contact.SILENT
        assert SILENCE <= time.monotonic() - began < 5 * SILENCE


def test_a_full_backlog_is_unreached_since_nobody_answered_the_connect():
    with peers.full() as port:
        assert ask("127.0.0.1", port, timeout=0.5) is Contact.UNREACHED


def test_a_frozen_process_is_silent_a_thawed_one_up_a_killed_one_refused():
    with peers.rank_process() as (port, process):
        assert ask("127.0.0.1", port) is Contact.UP
        freeze(process.pid)
        assert ask("127.0.0.1", port, timeout=SILENCE) is Contact.SILENT
        os.kill(process.pid, signal.SIGCONT)
        assert ask("127.0.0.1", port) is Contact.UP
        process.kill()
        process.wait()
        assert ask("127.0.0.1", port) is Contact.REFUSED


async def test_an_http_server_is_a_stranger():
    runner = web.AppRunner(web.Application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        assert await greet("127.0.0.1", port, timeout=PATIENCE) is Contact.STRANGER
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("says", "then_closes", "contact"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", False, Contact.STRANGER),
        (GREETING[:10], False, Contact.SILENT),
        (GREETING[:11], False, Contact.UP),
        (GREETING, True, Contact.UP),
        (GREETING[:10] + b"\x01", False, Contact.STRANGER),  # ZMTP 2: libzmq 3
        (b"\xff" + bytes(9), False, Contact.STRANGER),
        (GREETING[:4], True, Contact.SILENT),
        (b"", True, Contact.SILENT),
    ],
)
async def test_only_a_zmtp_3_signature_and_version_are_up(says, then_closes, contact):
    async def speak(_reader, writer):
        writer.write(says)
        if then_closes:
            writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert await greet("127.0.0.1", port, timeout=SILENCE if contact is Contact.SILENT else PATIENCE) is contact


async def test_a_greeting_that_comes_byte_by_byte_is_still_one():
    async def drip(_reader, writer):
        for at in range(11):
            writer.write(GREETING[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0.005)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    async with server:
        assert await greet("127.0.0.1", server.sockets[0].getsockname()[1], timeout=PATIENCE) is Contact.UP


async def test_a_peer_without_a_route_is_unreached():
    loop = asyncio.get_running_loop()
    # Linux has no route for TCP to a multicast address, wherever the test runs.
    answer = await greet_address("224.0.0.1", 4100, deadline=loop.time() + PATIENCE)
    assert answer is Contact.UNREACHED


def test_a_probe_that_meets_itself_is_refused(monkeypatch):
    """TCP simultaneous open: force the source port that the kernel picks once in 28,000 times."""
    port = free_port()

    class SamePort(socket.socket):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            self.bind(("127.0.0.1", port))

    async def ask_itself():
        loop = asyncio.get_running_loop()
        monkeypatch.setattr("controlplane.probes.zmtp.socket.socket", SamePort)
        try:
            return await greet_address("127.0.0.1", port, deadline=loop.time() + PATIENCE)
        finally:
            monkeypatch.undo()

    assert asyncio.run(ask_itself()) is Contact.REFUSED


def test_probes_leave_no_socket_behind_and_do_not_disturb_the_rank():
    with zmq.Context() as context, context.socket(zmq.PULL) as rank:
        port = rank.bind_to_random_port("tcp://127.0.0.1")

        async def many():
            return await asyncio.gather(*(greet("127.0.0.1", port, timeout=PATIENCE) for _ in range(100)))

        assert set(asyncio.run(many())) == {Contact.UP}
        # The rank's own end is closed a moment later. TIME_WAIT would be there for a minute.
        end = time.monotonic() + 10
        while (left := connections_of(port)) and time.monotonic() < end:
            time.sleep(0.02)
        assert left == []
        with context.socket(zmq.PUSH) as decode:
            decode.connect(f"tcp://127.0.0.1:{port}")
            decode.send(b"kv arguments")
            assert rank.poll(20_000)
            assert rank.recv() == b"kv arguments"


def connections_of(port: int) -> list[str]:
    """Lines of /proc/net/tcp about `port`, TIME_WAIT included, the listener left out."""
    wanted, listening = f":{port:04X}", "0A"
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    return [line for line in lines if wanted in line and line.split()[3] != listening]
