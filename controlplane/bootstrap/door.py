"""What both doors share: the raw ASGI shell around parse, call, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from controlplane.domain.errors import Refused
from controlplane.probes.networks import Network, contains
from controlplane.protocol.replies import Reply

from .bodies import Disconnected, Receive, UploadBudget, read_body
from .connection import Connection, send_reply
from .fleet import Fleet

log = structlog.get_logger()

Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = dict[str, Any]


class StandingDown(Exception):
    """This process may not answer any more: the connection is closed without a word."""


class Request:
    """One request, as far as a handler needs it."""

    __slots__ = ("connection", "headers", "method", "path", "query", "receive", "source")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.connection: Connection = scope["state"]["connection"]
        client = scope["client"]
        self.source: str = client[0] if client else ""
        self.receive = receive


class Door:
    """ASGI application of one wire. Subclasses answer; this decides whether anything may be answered at all."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        body_limit: int,
        budget: UploadBudget,
        writers: tuple[Network, ...],
        may_answer: Callable[[], bool],
    ) -> None:
        self.fleet = fleet
        self.body_limit = body_limit
        self.budget = budget
        self.writers = writers
        self.may_answer = may_answer
        self.refused: dict[int, int] = {}
        self.requests = 0

    async def answer(self, request: Request) -> Reply:
        raise NotImplementedError

    def refusal(self, refused: Refused) -> Reply:
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        self.requests += 1
        try:
            if not self.may_answer():
                raise StandingDown
            reply = await self.answer(request)
            if not self.may_answer():
                raise StandingDown
        except Refused as refused:
            reply = self.refusal(refused)
        except Disconnected:
            return
        except StandingDown:
            request.connection.hang_up()
            return
        except Exception:
            log.exception("request_failed", method=request.method, path=request.path[:200], source=request.source)
            reply = self.refusal(Refused("the control plane failed on this request; see its log", code="internal"))
        if reply.status >= 400:
            self.refused[reply.status] = self.refused.get(reply.status, 0) + 1
        await send_reply(send, reply, head_only=request.method == "HEAD")

    async def body(self, request: Request) -> bytes:
        return await read_body(request.receive, request.headers, self.body_limit, self.budget)

    def check_writer(self, request: Request) -> None:
        """Who may change anything on this wire, by source network."""
        if self.writers and request.source and not contains(self.writers, request.source):
            raise Refused(f"{request.source} may not register here (PDCP_REGISTER_NETWORKS)", code="forbidden")
