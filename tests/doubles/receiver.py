"""A small honest receiver of webhooks: it checks the signature, knows a message that comes twice, and keeps the rest."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from typing import Any

from aiohttp import web

from tests.doubles.serving import Server


class Receiver(Server):
    """Knobs, to be set at any time: `answer` (a status), `answers` (statuses of the next messages, before that),
    `headers` of its answers, `hang_seconds`, `forgets` (takes a message and closes the connection without a word)."""

    def __init__(self, *, secret: str = "", port: int | None = None) -> None:
        super().__init__(port=port)
        self.secret = secret
        self.answer = 200
        self.answers: list[int] = []
        self.headers: dict[str, str] = {}
        self.hang_seconds = 0.0
        self.forgets = False
        self.asked = 0
        self.twice = 0
        self.refused: list[str] = []
        self.messages: list[dict[str, Any]] = []

    @property
    def hook(self) -> str:
        return f"{self.url}/hooks/s3cret"

    @property
    def kinds(self) -> list[str]:
        return [message["kind"] for message in self.messages]

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/hooks/s3cret", self._hear)

    async def _hear(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        body = await request.read()
        await asyncio.sleep(self.hang_seconds)
        status = self.answers.pop(0) if self.answers else self.answer
        if not 200 <= status < 300:
            return web.Response(status=status, headers=self.headers)
        wrong = self._wrong(request, body)
        if wrong:
            self.refused.append(wrong)
            return web.Response(status=401, text=wrong)
        message = json.loads(body)
        if message["id"] in {known["id"] for known in self.messages}:
            self.twice += 1
        else:
            self.messages.append(message)
        if self.forgets and request.transport is not None:
            request.transport.abort()
        return web.Response(status=status)

    def _wrong(self, request: web.Request, body: bytes) -> str:
        """As standardwebhooks.com says that a receiver checks; blank when it is right."""
        id_, at = request.headers.get("webhook-id", ""), request.headers.get("webhook-timestamp", "")
        if id_ != json.loads(body)["id"] or not at.isdigit():
            return "the id or the time is missing"
        if not self.secret:
            return "" if "webhook-signature" not in request.headers else "signed, and nobody knows with what"
        mac = hmac.new(self.secret.encode(), f"{id_}.{at}.".encode() + body, hashlib.sha256).digest()
        said = request.headers.get("webhook-signature", "")
        return "" if said == f"v1,{base64.b64encode(mac).decode()}" else f"signed wrongly: {said}"
