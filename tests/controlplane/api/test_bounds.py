"""Bodies that are too large end before Django has them, with or without their length."""

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


async def test_django_itself_never_gets_what_is_too_large():
    async def parts():
        for _ in range(3000):
            yield b"x" * 1000

    transport = httpx.ASGITransport(app=bounded(get_asgi_application()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in ("/api/v1/instances", "/admin/login/", "/nowhere"):
            refused = await client.post(path, content=parts())
            assert (refused.status_code, refused.json()["code"]) == (413, "too_large"), path
