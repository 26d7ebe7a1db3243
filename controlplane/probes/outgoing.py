"""Every HTTP request that we make to an address which somebody told us: engines, routers, gateways.

Whoever may name a URL must not make us speak to what only we can reach. So: http and https only, no user-info, the
address behind a name is checked at the moment of connecting and is the one connected to, redirects are answers like
any other, proxies of the environment are not used, bodies are neither decompressed nor longer than a limit, and what
came back is for the caller's parser: it never stands in a sentence.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpcore
from django.conf import settings

from controlplane.domain.addresses import parse_ip
from controlplane.domain.errors import Refused

from .counting import counted
from .names import Unresolved, resolve
from .networks import ProbePolicy, parse_networks
from .sweep import Budget, Purse, is_local_address
from .urls import Target, canonical, parse

Resolver = Callable[[str], Awaitable[list[str]]]

# What one target may be asked, whoever asks: a router that starts empty is told of 500 workers at once.
_purse = Purse(Budget(burst=600, per_second=60.0))
_all_targets = Purse(Budget(burst=4000, per_second=1000.0))
_purse_lock = threading.Lock()


EVERYWHERE = parse_networks("0.0.0.0/0,::/0")

REFUSED = "refused"
"""Why nobody answered: the host is there, and nobody listens."""

DISTRUSTED = "certificate"
"""Why nobody was asked: whoever answers proves by no certificate that we trust that it is who was meant."""

UNRESOLVED = "unresolved"
"""Why nobody was asked: no name server said in time which address the name has."""


class Unreachable(Refused):
    """No usable answer came. `why` is for logs: in the sentence it would make us a port scanner. `connected`: somebody
    accepted the connection."""

    def __init__(self, sentence: str, *, why: str, connected: bool = False) -> None:
        super().__init__(sentence, code="unreachable")
        self.why = why
        self.connected = connected


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, of whatever status. `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def policy(own_ports: Iterable[int] = ()) -> ProbePolicy:
    """What settings allow: PDCP_PROBE_NETWORKS, minus ourselves; `own_ports` are listeners of instances."""
    wires = {settings.PDCP_KV_PORT, settings.PDCP_ENGINE_INFO_PORT, settings.PDCP_WEB_PORT}
    ours = wires | {*settings.PDCP_METRICS_PORTS, *own_ports}
    return ProbePolicy(settings.PDCP_PROBE_NETWORKS, frozenset(ours), is_own=is_local_address)


def operators_own() -> ProbePolicy:
    """For a URL from our own settings: whoever runs us may name any network. What leads to ourselves, or nowhere, may not."""
    return replace(policy(), allowed=EVERYWHERE)


def check_url(url: str, *, allowed: ProbePolicy | None = None) -> str:
    """The URL in its one form (no trailing slash, no default port), or Refused. A name is not looked up here.

    >>> check_url("HTTP://Node-7:30000/")
    'http://node-7:30000'
    """
    checked = canonical(url)
    target = parse(checked)
    if parse_ip(target.host) is not None:
        _check_address(target.host, target.port, allowed or policy())
    return checked


@counted
async def fetch(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout: float = 2.0,
    limit_bytes: int = 2**20,
    allowed: ProbePolicy | None = None,
    any_port: bool = False,
    resolver: Resolver = resolve,
) -> Fetched:
    """One request on a connection of its own. `timeout` (seconds) bounds all of it, `limit_bytes` the answer's body.
    `allowed` and `any_port` are widened for a URL of our own settings alone (`operators_own`).

    Raises Refused for what must not be asked, Unreachable when no usable answer came.
    """
    target = parse(url, any_port=any_port)
    _spend(target)
    backend = _Pinned(allowed or policy(), resolver, target.netloc)
    try:
        async with asyncio.timeout(timeout):
            return await _exchange(backend, method, target, headers or {}, body, limit_bytes)
    except TimeoutError:
        why = UNRESOLVED if backend.resolving else "timeout"
        raise _unusable(target, why, connected=backend.connected) from None
    except Unresolved as failure:
        why = "unknown name" if failure.unknown else UNRESOLVED
        raise _unusable(target, why, connected=False) from None
    except (httpcore.LocalProtocolError, UnicodeEncodeError):
        raise Refused("a header or the path of the request is malformed", code="malformed") from None
    except (OSError, httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ssl.SSLError) as failure:
        why = next((word for kind, word in BENEATH if _stands_beneath(failure, kind)), type(failure).__name__)
        raise _unusable(target, why, connected=backend.connected) from None


def _spend(target: Target) -> None:
    now = time.monotonic()
    with _purse_lock:
        if not _purse.spend(f"{target.host} {target.port}", now=now):
            raise Refused(f"{target.netloc} is asked too often; wait a moment", code="too_many")
        if not _all_targets.spend("", now=now):
            raise Refused("too many addresses are asked at once; wait a moment", code="too_many")


async def _exchange(
    backend: _Pinned, method: str, target: Target, headers: Mapping[str, str], body: bytes | None, limit: int
) -> Fetched:
    sent = {"host": target.netloc, "accept": "*/*", "accept-encoding": "identity", "user-agent": "pd-control-plane"}
    sent |= {name.lower(): value for name, value in headers.items()}
    sent["connection"] = "close"
    if body is not None:
        sent["content-length"] = str(len(body))
        sent.setdefault("content-type", "application/json")
    wire = httpcore.URL(
        scheme=target.scheme.encode(),
        host=target.host.encode(),
        port=target.port,
        target=target.on_the_wire.encode("ascii"),
    )
    tls = _trust() if target.scheme == "https" else None
    async with (
        httpcore.AsyncConnectionPool(network_backend=backend, ssl_context=tls, max_connections=1) as pool,
        pool.stream(method, wire, headers=list(sent.items()), content=body) as response,
    ):
        heard = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        # It was asked for as it is; what comes packed may be a bomb.
        if heard.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise _unusable(target, "encoded")
        read = bytearray()
        async for chunk in response.aiter_stream():
            read += chunk
            if len(read) > limit:
                raise _unusable(target, "too large")
        return Fetched(response.status, heard, bytes(read))


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to what a name means now, if that may be asked; nobody resolves it a second time."""

    def __init__(self, allowed: ProbePolicy, resolver: Resolver, netloc: str) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._netloc = netloc
        self._inner = httpcore.AnyIOBackend()
        self.connected = False
        self.resolving = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if parse_ip(host) is not None:
            _check_address(host, port, self._allowed)
            return await self._connect(host, port, timeout, local_address, socket_options)
        self.resolving = True
        found = await self._resolver(host)
        self.resolving = False
        usable = [ip for ip in found if self._allowed.may_probe(ip, port, source_ip="")]
        if found and not usable:
            # Which address it has is nothing that the caller could not know, but nothing that we must say.
            raise Refused(f"{self._netloc} leads to an address that may not be asked from here", code="forbidden")
        failure: Exception = OSError("no address")
        for ip in usable:
            try:
                return await self._connect(ip, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as problem:
                failure = problem
        raise failure

    async def _connect(self, *where: Any) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(*where)
        self.connected = True
        return stream

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise Refused("only TCP is spoken to others", code="forbidden")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _check_address(ip: str, port: int, allowed: ProbePolicy) -> None:
    why_not = allowed.refusal(ip, port, source_ip="")
    if why_not:
        raise Refused(f"{why_not}: it is not asked from here", code="forbidden")


BENEATH: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, REFUSED),
    (ssl.SSLCertVerificationError, DISTRUSTED),
)


def _stands_beneath(failure: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether this is the reason: it stands beneath what was made of it."""
    while failure is not None:
        if isinstance(failure, kind):
            return True
        failure = failure.__cause__ or failure.__context__
    return False


def _unusable(target: Target, why: str, *, connected: bool = True) -> Unreachable:
    return Unreachable(f"no usable answer came from {target.netloc}", why=why, connected=connected)


@functools.cache
def _trust() -> ssl.SSLContext:
    """The certificates that this host trusts. Loading them takes a while: once a process."""
    return ssl.create_default_context()
