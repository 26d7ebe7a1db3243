"""SGLang's wires on the web process: `/i/NAME/…` goes to the bootstrap process, so that one URL is enough.

It stands in front of Django: workers send any Host header, or none, know no CSRF token and follow no redirect. Pages
behind it keep all of Django's checks.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx
import structlog
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError

from controlplane.access import tokens
from controlplane.access.gates import Gates, gates
from controlplane.access.headers import token_in_raw
from controlplane.access.keyring import well_formed
from controlplane.access.roles import Who
from controlplane.domain.addresses import bracketed
from controlplane.domain.errors import Refused
from controlplane.protocol.replies import KV_NOT_FOUND, Reply, detail, refusal, text

from .uploads import Budget, ClientGone, read_body

log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIX = "/i/"
KV_PATHS = {"route", "register_dp_rank", "query_dp_ranks", "health", "pd/v1/heartbeats", "pd/v1/resolve"}
ENGINE_PATHS = {
    "register_transfer_engine_info",
    "get_transfer_engine_info",
    "remote_instance_transfer_engine_info",
    "get_remote_instance_transfer_engine_info",
}
WRITES = {"PUT", "POST"}
READING_POSTS = {"query_dp_ranks", "pd/v1/resolve"}
TIMEOUT_SECONDS = 5.0
# Below the 90 s for which the bootstrap process keeps an idle connection: we are never the one who is surprised.
IDLE_SECONDS = 75.0
MAX_POLLERS = 1000
# The path says which instance; a name and password sent beside it is none of the bootstrap process's business. A token
# goes on in our own header (x-pd-…), wherever it stood.
PASSED_ON = (b"content-type", b"accept", b"if-none-match", b"x-sglang-disaggregation-instance-id")
PASSED_BACK = {"content-type", "content-length", "etag", "www-authenticate"}
LOST = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class Wire:
    """One port of the bootstrap process, as seen from here."""

    url: str
    variable: str
    body_limit: int
    refusal: Callable[[Refused], Reply]


@dataclass(slots=True)
class Poller:
    """The connection that one client's health checks take, and when it last did."""

    client: httpx.AsyncClient
    used_at: float = 0.0


@dataclass(slots=True)
class Forwards:
    """An ASGI application: answers `/i/…` from the bootstrap process, leaves everything else to `behind`."""

    behind: Application
    kv: Wire
    engine: Wire
    budget: Budget
    gates: Gates
    _shared: httpx.AsyncClient | None = None
    _pollers: dict[tuple[str, int], Poller] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self.behind(scope, receive, send)
            return
        path = scope["path"][len(PREFIX) :].partition("/")[2]
        if path in KV_PATHS:
            wire = self.kv
        elif path in ENGINE_PATHS:
            wire = self.engine
        else:
            await _answer(send, KV_NOT_FOUND)
            return
        try:
            await self._admit(scope, path)
            async with read_body(scope, receive, limit=wire.body_limit, budget=self.budget) as body:
                await self._forward(wire, scope, body, send, poll=path == "health")
        except Refused as refused:
            await _answer(send, wire.refusal(refused))
        except ClientGone:
            return

    async def _admit(self, scope: Scope, path: str) -> None:
        """The bootstrap process sees our address, not the client's: who may do what is decided here, and there again."""
        if scope["method"] in WRITES and path not in READING_POSTS:
            gate = self.gates.register
        else:
            gate = self.gates.engine_info if path in ENGINE_PATHS else self.gates.read
        source = scope["client"][0] if scope.get("client") else ""
        try:
            if gate.is_settled_by(source):
                return
            token = token_in_raw(dict(scope["headers"]))
            who = await _who_has(token, source) if token is not None else None
            gate.check_token(token, who, lambda: unquote(scope["path"][len(PREFIX) :].partition("/")[0]))
        except Refused as refused:
            log.warning("forward_refused", source=source, method=scope["method"], path=path, why=refused.sentence)
            raise

    async def _forward(self, wire: Wire, scope: Scope, body: bytes, send: Send, *, poll: bool) -> None:
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        begun = False
        try:
            async with self._connection(scope, poll=poll) as client:
                url = httpx.URL(wire.url).copy_with(raw_path=target)
                async with _asked(client, scope["method"], url, _headers(scope), body) as response:
                    start = {"type": "http.response.start", "status": response.status_code, "headers": _back(response)}
                    await send(start)
                    begun = True
                    async for part in response.aiter_raw():
                        await send({"type": "http.response.body", "body": part, "more_body": True})
                    await send({"type": "http.response.body", "body": b""})
        except (httpx.InvalidURL, httpx.LocalProtocolError):
            await _answer(send, wire.refusal(Refused("the request line or a header is malformed", code="malformed")))
        except Away as away:
            log.warning("bootstrap_away", wire=wire.variable, problem=away.problem)
            sentence = f"the bootstrap process does not answer ({wire.variable}): {away.problem}; try again"
            await _answer(send, text(502, sentence))
        except httpx.HTTPError as problem:
            # Half an answer is out: all that can be done is to break off, which returning here does.
            log.warning("bootstrap_broke_off", wire=wire.variable, problem=type(problem).__name__, begun=begun)

    @asynccontextmanager
    async def _connection(self, scope: Scope, *, poll: bool) -> AsyncIterator[httpx.AsyncClient]:
        """The connections to use: all share some, but a client's health checks take one of their own.

        A flush ends when every connection that polls was told twice: two decodes that share one would end it before
        either of them knows. Whose connection cannot be told apart (port 0: a proxy stands between) gets a new one
        each time, which makes a flush longer, never shorter.
        """
        source = scope.get("client")
        if not poll:
            if self._shared is None:
                self._shared = _new_client(connections=200)
            yield self._shared
        elif source and source[1]:
            yield await self._poller((source[0], source[1]))
        else:
            async with _new_client(connections=1) as once:
                yield once

    async def _poller(self, source: tuple[str, int]) -> httpx.AsyncClient:
        now = time.monotonic()
        poller = self._pollers.pop(source, None) or Poller(_new_client(connections=1))
        poller.used_at = now
        self._pollers[source] = poller
        # Oldest first, for each use moves to the end.
        for key, old in list(self._pollers.items()):
            if now - old.used_at <= IDLE_SECONDS and len(self._pollers) <= MAX_POLLERS:
                break
            await self._pollers.pop(key).client.aclose()
        return poller.client


class Away(Exception):
    """The bootstrap process did not answer."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def in_front_of(behind: Application) -> Forwards:
    """The forwards as settings want them, before Django's own application."""
    host = bracketed(
        {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.PDCP_BOOTSTRAP_HOST, settings.PDCP_BOOTSTRAP_HOST)
    )
    return Forwards(
        behind,
        kv=Wire(f"http://{host}:{settings.PDCP_KV_PORT}", "PDCP_KV_PORT", settings.PDCP_KV_BODY_LIMIT_BYTES, refusal),
        engine=Wire(
            f"http://{host}:{settings.PDCP_ENGINE_INFO_PORT}",
            "PDCP_ENGINE_INFO_PORT",
            settings.PDCP_ENGINE_BODY_LIMIT_BYTES,
            lambda refused: detail(refusal(refused).status, refused.sentence),
        ),
        budget=Budget(settings.PDCP_UPLOAD_BUDGET_BYTES),
        gates=gates(),
    )


@asynccontextmanager
async def _asked(
    client: httpx.AsyncClient, method: str, url: httpx.URL, headers: list[tuple[bytes, bytes]], body: bytes
) -> AsyncIterator[httpx.Response]:
    """The response, its body still to be read. Raises Away.

    Everything on these wires may be sent twice, so a connection that was closed while it was idle costs a second try.
    """
    for attempt in (1, 2):
        request = client.build_request(method, url, headers=headers, content=body or None)
        try:
            response = await client.send(request, stream=True)
            break
        except httpx.TimeoutException:
            raise Away(f"no answer within {TIMEOUT_SECONDS:.0f} s") from None
        except LOST as problem:
            if attempt == 2 or isinstance(problem, httpx.ConnectError):
                refused = isinstance(problem, httpx.ConnectError)
                raise Away("nobody listens there" if refused else "it closed the connection") from None
    try:
        yield response
    finally:
        await response.aclose()


def _new_client(*, connections: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=TIMEOUT_SECONDS,
        limits=httpx.Limits(
            max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=IDLE_SECONDS
        ),
        # Both ends are ours: no proxy of the environment stands between, and no certificates need be loaded.
        trust_env=False,
        verify=False,
        follow_redirects=False,
    )


async def _who_has(token: str, source: str) -> Who | None:
    """Asked anew each time: a token that was revoked opens nothing from then on."""
    look = database_sync_to_async(tokens.who_has, thread_sensitive=False)
    try:
        return await look(token, source=source, now=time.time())
    except DatabaseError:
        raise Refused("tokens cannot be checked: the database is away; try again", code="unavailable") from None


def _headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    given = dict(scope["headers"])
    passed = [(name, value) for name, value in scope["headers"] if name in PASSED_ON or name.startswith(b"x-pd-")]
    token = token_in_raw(given)
    if token is not None and well_formed(token) and not given.get(b"x-pd-token", b"").strip():
        passed.append((b"x-pd-token", token.encode("latin-1")))
    return passed


def _back(response: httpx.Response) -> list[tuple[bytes, bytes]]:
    return [
        (name.lower(), value)
        for name, value in response.headers.raw
        if name.lower().decode("latin-1") in PASSED_BACK or name.lower().startswith(b"x-pd-")
    ]


async def _answer(send: Send, reply: Reply) -> None:
    headers = [(b"content-type", reply.content_type), (b"content-length", str(len(reply.body)).encode())]
    if reply.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
