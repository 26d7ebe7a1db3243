"""Long polls: they end with what they wait for, and hold neither a thread nor a connection meanwhile."""

import asyncio
import contextlib
import threading
import time

import httpx
import pytest
from django.core.asgi import get_asgi_application
from django.db import connections

from controlplane.access import tokens
from controlplane.commands import instances, requests
from controlplane.commands.transaction import record
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.append import NewEvent
from controlplane.ledger.hub import hub
from controlplane.models import Request
from tests.controlplane.api.client import token_of
from tests.controlplane.queries.world import World

GENEROUS_SECONDS = 20


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


@contextlib.asynccontextmanager
async def served(token: str):
    transport = httpx.ASGITransport(app=get_asgi_application(), client=("10.9.8.7", 1234))
    async with httpx.AsyncClient(
        transport=transport,
        base_url="http://localhost/api/v1/",
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    ) as client:
        try:
            yield client
        finally:
            await hub().aclose()


async def elsewhere(work, *args, **named):
    """In a thread of this test's own loop, whose connections end with it."""

    def once():
        try:
            return work(*args, **named)
        finally:
            connections.close_all()

    return await asyncio.to_thread(once)


async def until(true) -> None:
    async with asyncio.timeout(GENEROUS_SECONDS):
        while not true():
            await asyncio.sleep(0.01)


@pytest.fixture
def token() -> str:
    return token_of("read", "operate")


async def test_a_poll_ends_with_the_event_it_waited_for(token):
    async with served(token) as client:
        head = (await client.get("fleet")).json()["cursor"]
        poll = asyncio.create_task(client.get("events", params={"after": head, "wait": 20}))
        await until(lambda: hub()._users)
        assert not poll.done()
        await elsewhere(instances.add, "a", actor="anna")
        page = (await asyncio.wait_for(poll, GENEROUS_SECONDS)).json()
        assert [event["instance"] for event in page["items"]] == ["a"]
        again = await client.get("events", params={"after": head, "wait": 20})
        assert again.json() == page


async def test_a_poll_for_one_instance_sleeps_on_while_others_change(token):
    async with served(token) as client:
        head = (await client.get("fleet")).json()["cursor"]
        poll = asyncio.create_task(client.get("events", params={"after": head, "wait": 20, "instance": "b"}))
        await until(lambda: hub()._users)
        await elsewhere(instances.add, "a", actor="anna")
        looks = hub().looks
        await until(lambda: hub().looks > looks + 2)
        assert not poll.done()
        await elsewhere(instances.add, "b", actor="anna")
        page = (await asyncio.wait_for(poll, GENEROUS_SECONDS)).json()
        assert [event["instance"] for event in page["items"]] == ["b"]


async def test_a_poll_in_which_nothing_happens_ends_empty_where_it_may_go_on(token):
    async with served(token) as client:
        head = (await client.get("fleet")).json()["cursor"]
        page = (await client.get("events", params={"after": head, "wait": 0.2})).json()
        assert (page["items"], page["next"], page["more"]) == ([], head, False)


async def test_many_who_wait_hold_neither_threads_nor_connections(token):
    """Eight connections are all that PostgreSQL's pool has."""
    async with served(token) as client:
        head = (await client.get("fleet")).json()["cursor"]
        before = threading.active_count()
        polls = [asyncio.create_task(client.get("events", params={"after": head, "wait": 30})) for _ in range(40)]
        await until(lambda: hub()._users == len(polls))
        # The hub has a thread of its own, and so have its ear and the loop's executor.
        await until(lambda: threading.active_count() <= before + 8)
        assert (await client.get("instances")).status_code == 200
        await elsewhere(instances.add, "a", actor="anna")
        pages = await asyncio.wait_for(asyncio.gather(*polls), GENEROUS_SECONDS)
        assert {page.status_code for page in pages} == {200}
        assert all(len(page.json()["items"]) == 1 for page in pages)


async def test_who_may_not_ask_does_not_wait(token):
    async with served("pdcp_" + "0" * 64) as client:
        began = time.monotonic()
        refused = await client.get("events", params={"after": "x:1", "wait": 30})
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert time.monotonic() - began < GENEROUS_SECONDS
    async with served(token) as client:
        for wrong in ({"after": "x:1", "wait": 30}, {"after": "nonsense", "wait": 30}, {"wait": 30}):
            assert (await client.get("events", params=wrong)).status_code in (400, 410)


async def test_a_token_that_is_revoked_meanwhile_ends_the_poll_with_401(token):
    async with served(token) as client:
        head = (await client.get("fleet")).json()["cursor"]
        poll = asyncio.create_task(client.get("events", params={"after": head, "wait": 30}))
        await until(lambda: hub()._users)
        await elsewhere(tokens.revoke, token[:15], "anna")
        assert (await asyncio.wait_for(poll, GENEROUS_SECONDS)).status_code == 401


async def test_a_poll_for_an_operation_ends_with_its_answer(token):
    def prepare() -> int:
        World().launch(Topology(1, 1, 2, 1), first_port=4000)
        return requests.make("readmit", "prefill-a", actor="anna")

    def answer(number: int) -> None:
        def work():
            Request.objects.using(FACTS).filter(pk=number).update(answered_at=time.time(), granted=True, answer="done")
            return None, [NewEvent("request.answered", "prefill-a", {"request": number})]

        record(work)

    number = await elsewhere(prepare)
    async with served(token) as client:
        running = (await client.get(f"operations/request-{number}")).json()
        assert not running["ended"]
        poll = asyncio.create_task(client.get(f"operations/request-{number}", params={"wait": 30}))
        await until(lambda: hub()._users)
        await elsewhere(answer, number)
        ended = (await asyncio.wait_for(poll, GENEROUS_SECONDS)).json()
        assert (ended["state"], ended["sentence"]) == ("succeeded", "done")


async def test_a_body_without_its_length_is_read_and_bounded(token):
    """Chunked: REST framework alone would take it for empty."""

    async def parts(size: int):
        yield b'{"name": "a", "reason": "'
        for _ in range(size):
            yield b"x" * 1000
        yield b'"}'

    headers = {"Content-Type": "application/json"}
    async with served(token) as client:
        small = await client.post("instances", content=parts(1), headers=headers)
        assert (small.status_code, small.json()["name"]) == (201, "a")
        large = await client.post("instances", content=parts(300), headers=headers)
        assert (large.status_code, large.json()["code"]) == (413, "too_large")
