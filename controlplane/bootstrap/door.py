"""What both doors share: the raw ASGI shell around parse, call, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from django.db import DatabaseError

from controlplane.access.gates import Gate
from controlplane.domain.errors import Refused
from controlplane.ledger.failures import FencedOut, OutcomeUnknown
from controlplane.protocol.replies import Reply

from .bodies import Disconnected, Receive, UploadBudget, read_body
from .complaints import Complaints
from .connection import send_reply
from .fleet import Fleet, Instance
from .guard import Guard
from .outcome import Outcome, Pending
from .request import Head, Request
from .tally import Tally
from .tenancy import Meant, meant

log = structlog.get_logger()

Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = dict[str, Any]

MAX_SHORT_BODY = 65_536
NOT_NOW = "the database cannot be reached right now; nothing was changed, try again"


class StandingDown(Exception):
    """This process may not answer any more: the connection is closed without a word."""


class Door:
    """ASGI application of one wire. Subclasses answer; this decides whether anything may be answered at all."""

    about_ranks = False

    def __init__(
        self,
        fleet: Fleet,
        *,
        body_limit: int,
        budget: UploadBudget,
        guard: Guard,
        may_answer: Callable[[], bool],
        complaints: Complaints,
        tally: Tally,
    ) -> None:
        self.tally = tally
        self.complaints = complaints
        self.fleet = fleet
        self.body_limit = body_limit
        self.budget = budget
        self.guard = guard
        self._short_ways: dict[Any, Callable[[Request, bytes], Outcome]] = {}
        self.may_answer = may_answer
        self.refused: dict[int, int] = {}
        self.requests = 0

    @property
    def reading(self) -> Gate:
        """What reads of this wire must pass."""
        return self.guard.gates.read

    async def answer(self, request: Request) -> Reply:
        raise NotImplementedError

    def refusal(self, refused: Refused) -> Reply:
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(Head(scope), scope["state"]["connection"], receive)
        self.requests += 1
        try:
            if not self.may_answer():
                raise StandingDown
            reply = await self._answer(request)
            if not self.may_answer():
                raise StandingDown
        except Refused as refused:
            self.complain(request, refused)
            reply = self.refusal(refused)
        except Disconnected:
            return
        except (StandingDown, FencedOut, asyncio.CancelledError):
            request.connection.hang_up()
            return
        except DatabaseError:
            reply = self.refusal(Refused(NOT_NOW, code="unavailable"))
        except Exception:
            reply = self.failed(request)
        if reply.status >= 400:
            self.refused[reply.status] = self.refused.get(reply.status, 0) + 1
        await send_reply(send, reply, head_only=request.head.method == "HEAD")

    async def _answer(self, request: Request) -> Reply:
        try:
            return await self.answer(request)
        except Refused as refused:
            if refused.code != "unauthenticated" or not await self.guard.learns(request):
                raise
        return await self.answer(request)

    def meant(self, request: Request) -> Meant:
        head = request.head
        return meant(self.fleet, head.name, head.headers, request.connection.port, ranks=self.about_ranks)

    def complain(self, request: Request, refused: Refused) -> None:
        """Let operators hear of a refused write, of a listener that several instances share, and (in the log alone) of
        whoever may not read."""
        self.tally.refuse(refused.code)
        writes = request.head.method in ("PUT", "POST")
        if not writes and refused.code not in ("unavailable", "forbidden", "unauthenticated"):
            return
        try:
            instance = self.meant(request).instance if writes or refused.code == "unavailable" else None
        except Refused:
            instance = None
        self.complaints.about(instance, f"{request.head.method} {request.head.path[:100]}", request.source, refused)

    async def body(self, request: Request) -> bytes:
        assert request.receive is not None
        return await read_body(request.receive, request.head.headers, self.body_limit, self.budget)

    async def write(self, request: Request, begin: Callable[[Request, bytes], Outcome]) -> Reply:
        """Read the body, begin, wait for the batch; and remember the head, so that the next one is begun at once."""
        body = await self.body(request)
        outcome = begin(request, body)
        whole = b"content-length" in request.head.headers or (request.head.method == "GET" and not body)
        if whole and len(body) <= MAX_SHORT_BODY:
            request.connection.learn(request.head, len(body), self._guarded(begin))
        if isinstance(outcome, Reply):
            return outcome
        await outcome.future
        return outcome.reply()

    def _guarded(self, begin: Callable[[Request, bytes], Outcome]) -> Callable[[Request, bytes], Outcome]:
        known = self._short_ways.get(begin)
        if known is None:
            known = self._short_ways[begin] = self._short_way(begin)
        return known

    def _short_way(self, begin: Callable[[Request, bytes], Outcome]) -> Callable[[Request, bytes], Outcome]:
        def guarded(request: Request, body: bytes) -> Outcome:
            self.requests += 1
            try:
                return begin(request, body)
            except Refused as refused:
                self.complain(request, refused)
                reply = self.refusal(refused)
            except Exception:
                reply = self.failed(request)
            self.refused[reply.status] = self.refused.get(reply.status, 0) + 1
            return reply

        return guarded

    def after_adoption(self, adopting: Awaitable[Instance], begin: Callable[[Instance], Outcome]) -> Pending:
        """Begin once the instance exists."""

        async def wait() -> Reply:
            try:
                outcome = begin(await adopting)
            except Refused as refused:
                self.tally.refuse(refused.code)
                return self.refusal(refused)
            except (FencedOut, OutcomeUnknown):
                raise asyncio.CancelledError from None
            except DatabaseError:
                return self.refusal(Refused(NOT_NOW, code="unavailable"))
            if isinstance(outcome, Reply):
                return outcome
            await outcome.future
            return outcome.reply()

        task = asyncio.ensure_future(wait())
        return Pending(task, task.result)

    def failed(self, request: Request) -> Reply:
        log.exception("request_failed", method=request.head.method, path=request.head.path[:200], source=request.source)
        return self.refusal(Refused("the control plane failed on this request; see its log", code="internal"))

    def check_writer(self, request: Request) -> None:
        """Who may change anything on this wire."""
        self.guard.admit(self.guard.gates.register, request, lambda: self.meant(request).name)

    def check_reader(self, request: Request) -> bool:
        """Who may read here; whether everybody who comes from there may be answered the same."""
        gate = self.reading
        return gate.open or self.guard.admit(gate, request, lambda: self.meant(request).name)
