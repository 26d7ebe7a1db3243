"""Requests to addresses that somebody told us: what is refused, what is pinned, what is bounded, what is not said."""

import asyncio
import datetime
import gzip
import ipaddress
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.conf import settings
from django.test import override_settings

from controlplane.domain.engine_health import Answer, Memory
from controlplane.domain.errors import Refused
from controlplane.probes import outgoing
from controlplane.probes.engines import Patient, examine
from controlplane.probes.networks import ProbePolicy, parse_networks
from controlplane.probes.outgoing import Unreachable, check_url, fetch
from controlplane.probes.sweep import Budget, Purse, is_local_address
from controlplane.probes.urls import parse
from tests.controlplane.probes.answering import (
    answering,
    drop_by_drop,
    endless,
    endless_head,
    garbage,
    nothing,
    reply,
)
from tests.support.ports import free_port

EVERYWHERE = tuple(map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")))


@pytest.fixture(autouse=True)
def fresh_purses(monkeypatch):
    monkeypatch.setattr(outgoing, "_purse", Purse(Budget(burst=600, per_second=60.0)))
    monkeypatch.setattr(outgoing, "_all_targets", Purse(Budget(burst=4000, per_second=1000.0)))


FORMS = [
    ("HTTP://Node-7:30000/", "http://node-7:30000"),
    ("http://10.0.1.10:80", "http://10.0.1.10"),
    ("https://10.0.1.10:443/base/", "https://10.0.1.10/base"),
    ("http://[FD00::0:1]:30000", "http://[fd00::1]:30000"),
    ("http://[::ffff:10.0.0.1]:30000", "http://10.0.0.1:30000"),
]


@pytest.mark.parametrize(("given", "canonical"), FORMS)
def test_a_url_has_one_form(given, canonical):
    assert check_url(given) == canonical == check_url(canonical)


NOT_URLS = [
    ("", "must start with http"),
    ("file:///etc/hosts", "must start with http"),
    ("gopher://10.0.0.1:30000", "must start with http"),
    ("unix:///var/run/docker.sock", "must start with http"),
    ("//10.0.0.1:30000", "must start with http"),
    ("http://", "the host is missing"),
    ("http://10.0.1.10:30000@10.0.66.6/", "must not hold a user"),
    ("http://user:secret@10.0.1.10:30000", "must not hold a user"),
    ("http://10.0.1.10:30000?x=1", "neither a query nor a fragment"),
    ("http://10.0.1.10:30000#x", "neither a query nor a fragment"),
    ("http://10.0.1.10\\@10.0.66.6:30000", "a character that URLs do not have"),
    ("http://10.0.1.10:30000/\r\nHost: evil", "a character that URLs do not have"),
    ("http://10.0.1.10:30000/a b", "a character that URLs do not have"),
    ("http://nöde:30000", "a character that URLs do not have"),
    ("http://10.0.1.10:port", "malformed"),
    ("http://10.0.1.10:99999", "malformed"),
    ("http://[fe80::1%25eth0]:30000", ""),
    ("http://2130706433:30000", "not a complete IPv4 address"),
    ("http://0x7f.1:30000", "not a complete IPv4 address"),
    ("http://10.0.1.10:30000/" + "a" * 500, "at most 500 characters"),
]


@pytest.mark.parametrize(("url", "sentence"), NOT_URLS)
def test_what_is_no_plain_http_url_is_refused_with_a_sentence(url, sentence):
    with pytest.raises(Refused) as refusal:
        check_url(url)
    assert sentence in refusal.value.sentence
    assert "secret" not in refusal.value.sentence


NEVER = [
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:169.254.169.254]/latest",
    "http://[64:ff9b::a9fe:a9fe]/latest",
    "http://[fd00:ec2::254]/latest",
    "http://[fd00:ec2::23]/v1/credentials",
    "http://168.63.129.16/machine?comp=goalstate",
    "http://[2002:a9fe:a9fe::1]/latest",
    "http://100.100.100.200/latest",
    "http://169.254.7.7:30000",
    "http://[fe80::1]:30000",
    "http://0.0.0.0:30000",
    "http://[::]:30000",
    "http://224.0.0.1:30000",
    "http://[ff02::1]:30000",
    "http://255.255.255.255:30000",
]


@pytest.mark.parametrize("url", NEVER)
async def test_metadata_link_local_unspecified_and_multicast_are_never_asked_however_wide_the_networks(url):
    with override_settings(PDCP_PROBE_NETWORKS=EVERYWHERE):
        with pytest.raises(Refused):
            check_url(url)
        with pytest.raises(Refused) as refusal:
            await fetch("GET", url, timeout=0.5)
    assert not isinstance(refusal.value, Unreachable), "it was not even tried"


@pytest.mark.parametrize("port", [1, 22, 25, 3306, 5432, 6379, 11211])
async def test_ports_of_other_protocols_are_not_asked(port):
    with pytest.raises(Refused, match=f"port {port} is not one on which"):
        await fetch("GET", f"http://127.0.0.1:{port}/")


@override_settings(REDIS_URL="redis://10.0.0.9:26399/0")
def test_nor_are_those_of_our_own_stores(monkeypatch):
    monkeypatch.setitem(settings.DATABASES["default"], "PORT", "25432")
    for port in (26399, 25432):
        with pytest.raises(Refused, match="is not one on which"):
            check_url(f"http://10.0.0.9:{port}")
    assert check_url("http://10.0.0.9:26400")


async def test_networks_that_are_not_allowed_are_refused_and_not_connected_to():
    async with answering(reply("200 OK", b"hello")) as peer:
        assert (await fetch("GET", peer.url)).body == b"hello"
        with override_settings(PDCP_PROBE_NETWORKS=(ipaddress.ip_network("10.0.0.0/8"),)):
            with pytest.raises(Refused, match="outside PDCP_PROBE_NETWORKS"):
                await fetch("GET", peer.url)
            with pytest.raises(Refused, match="outside PDCP_PROBE_NETWORKS"):
                check_url(peer.url)
        assert len(peer.requests) == 1


async def test_our_own_ports_are_refused_by_whatever_name_we_are_called():
    async with answering(reply("200 OK")) as peer:
        allowed = ProbePolicy(EVERYWHERE, frozenset({peer.port}), is_own=is_local_address)
        for host in ("127.0.0.1", "127.0.0.2", "localhost"):
            with pytest.raises(Refused):
                await fetch("GET", f"http://{host}:{peer.port}", allowed=allowed)
        with override_settings(PDCP_WEB_PORT=peer.port), pytest.raises(Refused, match="this control plane itself"):
            check_url(peer.url)
        with pytest.raises(Refused, match="this control plane itself"):
            check_url(peer.url, allowed=outgoing.policy(own_ports=[peer.port]))
        assert peer.requests == []


async def test_a_name_is_checked_when_it_is_connected_to_and_only_what_was_checked_is_connected_to():
    """The answer of the resolver changes from one question to the next: each connection has one question only."""
    async with answering(reply("200 OK", b"me")) as peer:
        answers = [["127.0.0.1"], ["169.254.169.254"], ["8.8.8.8", "127.0.0.1"]]
        asked = []

        async def changing(name: str) -> list[str]:
            asked.append(name)
            return answers[len(asked) - 1]

        url = f"http://engine.example:{peer.port}/health"
        assert (await fetch("GET", url, resolver=changing)).body == b"me"
        with pytest.raises(Refused) as refusal:
            await fetch("GET", url, resolver=changing)
        assert refusal.value.code == "forbidden" and "169.254" not in refusal.value.sentence
        # Of several addresses only those that may be asked are.
        assert (await fetch("GET", url, resolver=changing)).body == b"me"
        assert asked == ["engine.example"] * 3 and len(peer.requests) == 2
        assert f"host: engine.example:{peer.port}" in peer.requests[0]


async def test_a_redirect_is_an_answer_and_not_followed():
    async with answering(reply("200 OK", b"secret")) as inner:
        async with answering(reply(f"302 Found\r\nlocation: {inner.url}/")) as peer:
            fetched = await fetch("GET", peer.url)
        assert fetched.status == 302 and inner.requests == []


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    async with answering(reply("200 OK", b"proxy")) as proxy, answering(reply("200 OK", b"direct")) as peer:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert (await fetch("GET", peer.url)).body == b"direct" and proxy.requests == []


async def test_an_answer_has_a_size():
    async with answering(endless) as peer:
        with pytest.raises(Unreachable) as refusal:
            await fetch("GET", peer.url, limit_bytes=100_000, timeout=30)
    assert refusal.value.why == "too large"
    async with answering(endless_head) as peer:
        with pytest.raises(Unreachable):
            await fetch("GET", peer.url, timeout=30)


@pytest.mark.parametrize("slowly", [drop_by_drop, nothing])
async def test_an_answer_has_a_time_however_lively_it_is(slowly):
    begun = time.monotonic()
    async with answering(slowly) as peer:
        with pytest.raises(Unreachable) as refusal:
            await fetch("GET", peer.url, timeout=0.3)
    assert refusal.value.why == "timeout" and time.monotonic() - begun < 20


async def test_a_resolver_that_does_not_answer_is_within_the_time_too():
    async def silent(name: str) -> list[str]:
        await asyncio.sleep(600)
        return []

    with pytest.raises(Unreachable):
        await fetch("GET", "http://engine.example:30000", resolver=silent, timeout=0.2)


async def test_nothing_is_unpacked():
    bomb = gzip.compress(bytes(10_000_000))
    async with answering(reply("200 OK\r\ncontent-encoding: gzip", bomb)) as peer:
        with pytest.raises(Unreachable) as refusal:
            await fetch("GET", peer.url)
    assert refusal.value.why == "encoded"
    assert "accept-encoding: identity" in peer.requests[0]
    async with answering(reply("200 OK\r\ncontent-type: application/gzip", bomb)) as peer:
        assert (await fetch("GET", peer.url)).body == bomb


async def test_whatever_goes_wrong_the_sentence_is_the_same_and_holds_nothing_of_the_answer():
    """Otherwise whoever may name a URL could tell open ports from closed ones, and read banners."""
    said = []
    for answer in (garbage, nothing, endless):
        async with answering(answer) as peer:
            with pytest.raises(Unreachable) as refusal:
                await fetch("GET", peer.url, timeout=0.3, limit_bytes=1000)
            said.append(refusal.value.sentence.replace(str(peer.port), "N"))
    closed = free_port()
    with pytest.raises(Unreachable) as refusal:
        await fetch("GET", f"http://127.0.0.1:{closed}", timeout=5)
    said.append(refusal.value.sentence.replace(str(closed), "N"))
    assert set(said) == {"no usable answer came from 127.0.0.1:N"}


async def test_one_target_cannot_be_asked_without_end(monkeypatch):
    monkeypatch.setattr(outgoing, "_purse", Purse(Budget(burst=3, per_second=0.001)))
    async with answering(reply("200 OK")) as peer, answering(reply("200 OK")) as other:
        for _ in range(3):
            await fetch("GET", peer.url)
        with pytest.raises(Refused, match="asked too often"):
            await fetch("GET", peer.url)
        await fetch("GET", other.url)
        assert len(peer.requests) == 3


async def test_nor_can_many_targets_together(monkeypatch):
    monkeypatch.setattr(outgoing, "_all_targets", Purse(Budget(burst=5, per_second=0.001)))
    refused = 0
    for _ in range(20):
        try:
            await fetch("GET", f"http://127.0.0.1:{free_port()}", timeout=5)
        except Unreachable:
            continue
        except Refused as problem:
            assert "too many addresses" in problem.sentence
            refused += 1
    assert refused == 15


async def test_what_is_sent_is_what_was_meant():
    async with answering(reply("201 Created\r\nX-Thing: yes", b"{}")) as peer:
        fetched = await fetch(
            "POST", f"{peer.url}/workers?x=1", headers={"Authorization": "Bearer key"}, body=b'{"a": 1}'
        )
    assert (fetched.status, fetched.headers["x-thing"], fetched.body) == (201, "yes", b"{}")
    (sent,) = peer.requests
    assert sent.startswith("POST /workers?x=1 HTTP/1.1\r\n") and sent.endswith('\r\n\r\n{"a": 1}')
    assert "authorization: Bearer key" in sent and "content-type: application/json" in sent
    with pytest.raises(Refused):
        await fetch("GET", peer.url, headers={"Authorization": "Bearer a\r\nX-Evil: 1"})


async def test_ipv6_is_spoken():
    try:
        async with answering(reply("200 OK", b"six"), "::1") as peer:
            assert (await fetch("GET", peer.url)).body == b"six"
            assert f"host: [::1]:{peer.port}" in peer.requests[0]
    except OSError:
        pytest.skip("this host has no IPv6")


def certificate(directory: Path, name: str) -> Path:
    """A key and a certificate for one DNS name, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(called).issuer_name(called).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = directory / f"{name}.pem"
    path.write_bytes(secret + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


async def test_https_proves_the_name_and_not_the_address_that_it_led_to(tmp_path, monkeypatch):
    here = certificate(tmp_path, "engine.example")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(here)
    monkeypatch.setattr(outgoing, "_trust", lambda: ssl.create_default_context(cafile=str(here)))

    async def to_loopback(name: str) -> list[str]:
        return ["127.0.0.1"]

    async with answering(reply("200 OK", b"proven"), tls=serving) as peer:
        for host, proven in (("engine.example", True), ("other.example", False), ("127.0.0.1", False)):
            url = f"https://{host}:{peer.port}/"
            if proven:
                assert (await fetch("GET", url, resolver=to_loopback, timeout=10)).body == b"proven"
                continue
            with pytest.raises(Unreachable) as refused:
                await fetch("GET", url, resolver=to_loopback, timeout=10)
            assert refused.value.why == outgoing.DISTRUSTED
        assert len(peer.requests) == 1
        patient = Patient(1, "decode", f"https://127.0.0.1:{peer.port}", Memory())
        heard = await examine(patient, allowed=ProbePolicy(parse_networks("127.0.0.0/8")), timeout=10)
        assert heard.answer is Answer.UNASKED and "certificate" in heard.error, "it does not hang, and it was not asked"


async def test_only_a_url_of_our_own_settings_may_name_any_network_and_any_port():
    with override_settings(PDCP_PROBE_NETWORKS=()):
        async with answering(reply("200 OK", b"heard")) as peer:
            with pytest.raises(Refused, match="outside PDCP_PROBE_NETWORKS"):
                await fetch("GET", peer.url)
            answered = await fetch("GET", peer.url, allowed=outgoing.operators_own(), any_port=True)
    assert answered.body == b"heard"
    with pytest.raises(Refused, match="port 25 is not one on which"):
        parse("http://10.0.0.1:25/")
    assert parse("http://10.0.0.1:25/", any_port=True).port == 25
    for nowhere in ("http://0.0.0.0:9000/", "http://224.0.0.1:9000/"):
        with pytest.raises(Refused):
            await fetch("GET", nowhere, allowed=outgoing.operators_own(), any_port=True)
