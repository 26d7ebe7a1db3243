"""Requests end within their bound whatever the peer does, and connections are used again only when that is safe."""

import asyncio
import contextlib
import datetime
import ipaddress
import socket
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.workers.sdk.server import HANG, RESET, Said, Server
from workers.sdk.errors import BrokenOff, Closed, Garbled, TimedOut, TooLarge, Unreachable
from workers.sdk.exchange import Ask
from workers.sdk.places import Place
from workers.sdk.wire import Wire

GET = Ask("GET", "/x")
GENEROUS = 20.0


async def ask(server: Server, request: Ask = GET, *, within: float = GENEROUS):
    wire = Wire()
    try:
        return await wire.ask(server.place, request, within=within)
    finally:
        await wire.aclose()


async def test_one_connection_serves_one_request_after_another(serve):
    server = serve(lambda heard: Said(body=heard.path.encode()))
    wire = Wire()
    for n in range(5):
        assert (await wire.ask(server.place, Ask("GET", f"/{n}"), within=GENEROUS)).body == f"/{n}".encode()
    assert server.connections == 1
    await wire.aclose()


async def test_a_connection_that_its_server_closed_while_idle_costs_one_more_try_and_no_error(serve):
    server = serve(lambda heard: Said())
    wire = Wire()
    for _ in range(3):
        assert (await wire.ask(server.place, GET, within=GENEROUS)).status == 200
        server.cut_idle()
    assert len(server.heard) == 3
    await wire.aclose()


async def test_what_a_server_says_unasked_is_never_taken_for_the_next_answer(serve):
    server = serve(lambda heard: Said(body=heard.path.encode(), unasked=Said(body=b"forged").raw()))
    wire = Wire()
    for path in ("/1", "/2", "/3"):
        assert (await wire.ask(server.place, Ask("GET", path), within=GENEROUS)).body == path.encode()
    assert server.connections == 3
    await wire.aclose()


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX: y\r\n\r\n",
            b"abcde",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
    ids=["chunked", "until it closes", "after an interim answer", "empty"],
)
async def test_a_body_is_read_however_it_ends(serve, raw, body):
    assert (await ask(serve(lambda heard: raw))).body == body


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20,
    ],
    ids=["another protocol", "no chunk", "a longer chunk", "an endless head", "interim answers for ever"],
)
async def test_whoever_does_not_speak_http_is_told_apart(serve, raw):
    with pytest.raises(Garbled, match=r"127\.0\.0\.1"):
        await ask(serve(lambda heard: raw))


@pytest.mark.parametrize(
    "answer", [RESET, Said(body=b"x" * 1000, cut=200), Said(cut=5)], ids=["at once", "body", "head"]
)
async def test_a_connection_that_ends_early_is_no_answer(serve, answer):
    with pytest.raises(BrokenOff, match="GET /x"):
        await ask(serve(lambda heard: answer))


@pytest.mark.parametrize("length", [True, False], ids=["said", "found out"])
async def test_an_answer_over_its_limit_is_not_read(serve, length):
    body = b"x" * 5000
    raw = b"HTTP/1.1 200 OK\r\n\r\n" + body
    server = serve(lambda heard: Said(body=body) if length else raw)
    assert len((await ask(server, Ask("GET", "/x", most=5000))).body) == 5000
    with pytest.raises(TooLarge, match="4999 bytes"):
        await ask(server, Ask("GET", "/x", most=4999))


@pytest.mark.parametrize(
    "answer",
    [HANG, Said(body=b"x" * 500, slowly=0.05), Said(after=30)],
    ids=["silent", "one byte at a time", "late"],
)
async def test_no_peer_prolongs_a_request_beyond_its_bound(serve, answer):
    server = serve(lambda heard: answer)
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"127\.0\.0\.1:\d+ .*within 0\.5 s"):
        await ask(server, within=0.5)
    assert (time.monotonic() - began) / slowness() < 2


async def test_silence_ends_a_request_before_its_whole_bound_is_over(serve):
    server = serve(lambda heard: HANG)
    with pytest.raises(TimedOut, match=r"silent for 0\.2 s"):
        await ask(server, Ask("GET", "/x", stall=0.2))


async def test_nobody_there_is_said_with_the_address():
    port = free_port()
    wire = Wire()
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port} .*refused: nobody listens"):
        await wire.ask(Place("127.0.0.1", port), GET, within=GENEROUS)
    with pytest.raises(Unreachable, match="name cannot be resolved"):
        await wire.ask(Place("no-such-host.invalid", 80), GET, within=GENEROUS)
    await wire.aclose()


async def test_a_server_that_takes_no_connection_is_given_up():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        others = []
        place = Place("127.0.0.1", deaf.getsockname()[1])
        # Its queue is full: the kernel drops what comes.
        for _ in range(4):
            other = socket.socket()
            other.setblocking(False)
            other.connect_ex(deaf.getsockname())
            others.append(other)
        wire = Wire(connect_seconds=0.3)
        with pytest.raises(TimedOut, match=r"no connection within 0\.3 s|no whole answer"):
            await wire.ask(place, GET, within=1.0)
        await wire.aclose()
        for other in others:
            other.close()


async def test_no_more_connections_are_opened_than_allowed_and_all_are_answered(serve):
    server = serve(lambda heard: Said(after=0.01))
    wire = Wire(connections=3)
    answers = await asyncio.gather(*(wire.ask(server.place, GET, within=GENEROUS) for _ in range(40)))
    assert [answer.status for answer in answers] == [200] * 40
    assert server.connections <= 3 and server.most_at_once <= 3
    await wire.aclose()


async def test_a_large_body_is_sent_in_parts_and_arrives_whole(serve):
    server = serve(lambda heard: Said(body=str(len(heard.body)).encode()))
    parts = Ask("PUT", "/x", body=lambda: (bytes([n]) * 100_000 for n in range(50)))
    assert (await ask(server, parts)).body == b"5000000"
    assert server.heard[0].body == b"".join(bytes([n]) * 100_000 for n in range(50))
    assert (await ask(server, Ask("PUT", "/x", body=b"y" * 3_000_000))).body == b"3000000"


async def test_a_refusal_that_comes_before_all_is_sent_is_heard():
    """The server answers 413 after the head, and reads nothing more: without listening both would wait."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(Said(413, b"too large", {"Connection": "close"}).raw())
        await writer.drain()
        await asyncio.sleep(30)

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    place = Place("127.0.0.1", server.sockets[0].getsockname()[1])
    wire = Wire()
    for body in (b"z" * 30_000_000, lambda: iter([b"z" * 100_000] * 300)):
        answer = await wire.ask(place, Ask("PUT", "/x", body=body), within=GENEROUS)
        assert (answer.status, answer.body) == (413, b"too large")
    await wire.aclose()
    server.close()


async def test_an_error_of_whoever_makes_the_body_is_no_hang(serve):
    server = serve(lambda heard: Said())

    def parts():
        yield b"a" * 10
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        await ask(server, Ask("PUT", "/x", body=parts))


async def test_ipv6_is_spoken_with_brackets(serve):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    server = serve(lambda heard: Said(body=heard.headers["host"].encode()), host="::1")
    assert (await ask(server)).body == f"[::1]:{server.port}".encode()


async def test_a_closed_client_says_so(serve):
    server = serve(lambda heard: Said())
    wire = Wire()
    await wire.aclose()
    with pytest.raises(Closed, match="was closed"):
        await wire.ask(server.place, GET, within=GENEROUS)


async def test_tls_is_spoken_to_who_can_prove_himself_and_to_nobody_else(tmp_path, monkeypatch):
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"PUT" in head:
                    await reader.readexactly(200_000)
                writer.write(Said(body=b"private").raw())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    place = Place("127.0.0.1", server.sockets[0].getsockname()[1], "https")
    wire = Wire()
    with pytest.raises(Unreachable, match="TLS failed"):
        await wire.ask(place, GET, within=GENEROUS)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    trusting = Wire()
    for request in (GET, Ask("PUT", "/x", body=b"y" * 200_000), GET):
        assert (await trusting.ask(place, request, within=GENEROUS)).body == b"private"
    for one in (wire, trusting):
        await one.aclose()
    server.close()


def self_signed(directory):
    """A certificate of 127.0.0.1, and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, secret
