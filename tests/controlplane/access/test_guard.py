"""Tokens that the bootstrap process does not know yet: looked up before they are refused, and not more often than bearable."""

import asyncio
import ipaddress
import time
from types import SimpleNamespace

import pytest
from knox.crypto import hash_token

from controlplane.access.gates import By, Gate, Gates
from controlplane.access.keyring import Key
from controlplane.bootstrap import guard as module
from controlplane.bootstrap.guard import Guard
from controlplane.bootstrap.request import Head, Request
from controlplane.domain.errors import Refused

HERE = (ipaddress.ip_network("127.0.0.0/8"),)
MADE = "pdcp_" + "a" * 64
NOBODYS = "pdcp_" + "b" * 64


class Stored:
    """What the ledger has, and how often it was read; `fails` as a database that is away."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.reads = 0
        self.waits: asyncio.Event | None = None
        self.fails = False

    async def __call__(self, *_) -> list[Key]:
        self.reads += 1
        seen = list(self.keys)
        if self.waits is not None:
            await self.waits.wait()
        if self.fails:
            raise OSError("no route to the database")
        return seen

    def make(self, token: str) -> None:
        self.keys.append(Key(token[:15], hash_token(token), "worker", frozenset({"register"})))


def guard_of(stored: Stored, by: By = By.TOKEN) -> Guard:
    gate = Gate("register here", "register", HERE, "NETWORKS", by, "BY")
    return Guard(Gates(gate, gate, gate), stored)


def shows(token: str | None) -> Request:
    headers = [(b"x-pd-token", token.encode())] if token is not None else []
    scope = {"method": "PUT", "path": "/route", "query_string": b"", "headers": headers}
    return Request(Head(scope), SimpleNamespace(client=None))


async def test_a_token_made_a_moment_ago_is_found_and_one_that_is_nobodys_is_not():
    stored = Stored()
    guard = guard_of(stored)
    await guard.load()
    stored.make(MADE)
    assert await guard.learns(shows(MADE)) is True
    assert await guard.learns(shows(NOBODYS)) is False


async def test_what_cannot_be_a_token_costs_no_look():
    stored = Stored()
    guard = guard_of(stored)
    for token in (None, "", "pdcp_", "Bearer", "x" * 10_000):
        assert await guard.learns(shows(token)) is False
    assert await guard_of(stored, By.NETWORK).learns(shows(MADE)) is False
    assert stored.reads == 0


async def test_a_crowd_with_tokens_of_nobody_shares_a_few_looks(monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY_SECONDS", 3600.0)
    stored = Stored()
    guard = guard_of(stored)
    found = await asyncio.gather(*(guard.learns(shows(NOBODYS)) for _ in range(500)))
    assert not any(found) and stored.reads == 1


async def test_who_comes_while_a_look_goes_on_waits_for_the_next(monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY_SECONDS", 0.0)
    stored = Stored()
    stored.waits = asyncio.Event()
    guard = guard_of(stored)
    early = asyncio.ensure_future(guard.learns(shows(NOBODYS)))
    while not stored.reads:
        await asyncio.sleep(0)
    stored.make(MADE)  # the look that goes on has read already
    late = asyncio.ensure_future(guard.learns(shows(MADE)))
    await asyncio.sleep(0)
    stored.waits.set()
    assert (await early, await late, stored.reads) == (False, True, 2)


async def test_readings_that_overlap_never_bring_back_a_token_that_was_revoked():
    stored = Stored()
    stored.make(MADE)
    guard = guard_of(stored)
    slow = stored.waits = asyncio.Event()
    older = asyncio.ensure_future(guard.load())
    while not stored.reads:
        await asyncio.sleep(0)
    stored.keys, stored.waits = [], None
    newer = asyncio.ensure_future(guard.load())
    for _ in range(5):
        await asyncio.sleep(0)
    slow.set()
    await asyncio.gather(older, newer)
    assert guard._keys.find(MADE, now=time.time()) is None


async def test_while_the_ledger_cannot_be_read_nobody_is_told_that_the_token_is_wrong(monkeypatch):
    stored = Stored()
    stored.fails = True
    guard = guard_of(stored)
    with pytest.raises(Refused, match="try again") as refused:
        await guard.learns(shows(MADE))
    assert refused.value.code == "unavailable"
    stored.fails, stored.waits = False, asyncio.Event()
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    with pytest.raises(Refused, match="try again"):
        await guard.learns(shows(MADE))
