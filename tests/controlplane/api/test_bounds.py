"""Bodies that are too large end before Django has them, with or without their length."""

import asyncio
import json

import httpx
from django.core.asgi import get_asgi_application

from controlplane.api.bounds import bounded

LIMIT = 1000


class Behind:
    """Reads everything, as Django does, and answers how much there was."""

    def __init__(self) -> None:
        self.read: int | None = None

    async def __call__(self, scope, receive, send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        self.read = size
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})


async def ask(parts: list[bytes], *, length: bytes | None = None) -> tuple[int, bytes, int, int | None]:
    """Status, body, how many parts were taken, and how much Django read."""
    behind, sent, taken = Behind(), [], 0

    async def receive():
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": parts[taken - 1], "more_body": taken < len(parts)}

    async def send(message) -> None:
        sent.append(message)

    headers = [(b"content-length", length)] if length is not None else []
    await bounded(behind, limit=LIMIT)({"type": "http", "headers": headers}, receive, send)
    return sent[0]["status"], sent[1]["body"], taken, behind.read


async def test_a_body_within_the_limit_passes():
    assert await ask([b"x" * 600, b"x" * 400]) == (200, b"1000", 2, 1000)
    assert await ask([b"x" * 10], length=b"10") == (200, b"10", 1, 10)


async def test_a_declared_length_past_the_limit_is_refused_unread():
    status, body, taken, read = await ask([b"x"], length=b"1001")
    assert (status, json.loads(body)["code"], taken, read) == (413, "too_large", 0, None)


async def test_a_body_without_its_length_is_cut_off_where_it_passes_the_limit():
    status, body, taken, read = await ask([b"x" * 600] * 1000)
    assert (status, json.loads(body)["code"], taken, read) == (413, "too_large", 2, None)


async def test_a_body_that_does_not_come_is_waited_for_so_long_and_no_longer():
    behind, sent, parts = Behind(), [], [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message) -> None:
        sent.append(message)

    async with asyncio.timeout(20):
        await bounded(behind, seconds=0.1)({"type": "http", "headers": []}, receive, send)
    assert (sent[0]["status"], json.loads(sent[1]["body"])["code"], behind.read) == (503, "timeout", None)
    assert (b"connection", b"close") in sent[0]["headers"]


async def test_whoever_waits_for_an_answer_after_the_body_may_take_as_long_as_it_takes():
    gone = asyncio.Event()

    async def receive():
        if not gone.is_set():
            gone.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(0.3)
        return {"type": "http.disconnect"}

    async def behind(scope, receive, send) -> None:
        assert [(await receive())["type"] for _ in range(2)] == ["http.request", "http.disconnect"]

    async def send(message) -> None:
        raise AssertionError(message)

    await bounded(behind, seconds=0.1)({"type": "http", "headers": []}, receive, send)


async def test_django_itself_never_gets_what_is_too_large():
    async def parts():
        for _ in range(3000):
            yield b"x" * 1000

    transport = httpx.ASGITransport(app=bounded(get_asgi_application()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in ("/api/v1/instances", "/admin/login/", "/nowhere"):
            refused = await client.post(path, content=parts())
            assert (refused.status_code, refused.json()["code"]) == (413, "too_large"), path
