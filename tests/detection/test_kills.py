"""A real prefill rank is killed, again and again: how soon everybody sees it, and how soon it is right again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from statistics import median

import httpx
import pytest

from tests.detection.nursery import Nursery
from tests.detection.sight import Seen, Sight, shown
from tests.soak.hooks import Note
from tests.soak.report import share
from tests.support.machine import slowness
from tests.support.operator import make_token
from tests.support.people import session_keys
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap
from tests.support.stream import Reader, reading
from tests.support.web import Web

SEEN_WITHIN, USUALLY_WITHIN = 6.0, 2.0
KILLS = 10

Make = Callable[..., Bootstrap]
MakeWeb = Callable[..., Web]


async def kill_again_and_again(
    bootstrap: Bootstrap, nursery: Nursery, web: Web, token: str, cookie: str, *, times: int
) -> tuple[list[Seen], list[Seen]]:
    """Seconds until each kill was seen, and until the rank's successor was, counted from when it had registered."""
    headers = {"authorization": f"Bearer {token}"}
    reader = Reader(web.socket_url, headers=headers)
    deaths, returns = [], []
    rank = await asyncio.to_thread(nursery.bear, bootstrap.kv_port)
    async with (
        httpx.AsyncClient(
            base_url=web.url, headers=headers, cookies={"sessionid": cookie}, timeout=30, trust_env=False
        ) as eyes,
        reading(reader),
    ):
        await reader.until(lambda r: "default" in r.state.get("instances", {}))
        sight = Sight("default", bootstrap.kv_port, web=eyes, reader=reader)
        await sight.alive(time.monotonic(), rank.port)
        for _ in range(times):
            # At any moment of a round.
            await asyncio.sleep(random.random())
            rank.kill9()
            deaths.append(await sight.dead(time.monotonic()))
            rank = await asyncio.to_thread(nursery.bear, bootstrap.kv_port)
            returns.append(await sight.alive(time.monotonic(), rank.port))
        sight.close()
    return deaths, returns


def judge(deaths: list[Seen], returns: list[Seen]) -> None:
    slow = slowness()
    for what, took in (("a kill", deaths), ("a return", returns)):
        for who in took[0]:
            times = [seen[who] / slow for seen in took]
            assert max(times) <= SEEN_WITHIN, f"{what} was seen by {who} after {max(times):.1f} s"
            assert median(times) <= USUALLY_WITHIN, f"{what} is usually seen by {who} after {median(times):.1f} s"


@pytest.mark.timeout(180)
def test_a_killed_rank_is_seen_by_everybody_within_seconds_and_its_successor_as_soon(
    sqlite_backend: Backend, make_bootstrap: Make, nursery: Nursery, make_web: MakeWeb
):
    bootstrap = make_bootstrap(sqlite_backend).start()
    token, cookie = make_token(bootstrap.env, "eyes", "read"), session_keys(bootstrap.env)["vera"]
    web = make_web(bootstrap.env)
    deaths, returns = asyncio.run(kill_again_and_again(bootstrap, nursery, web, token, cookie, times=KILLS))
    print(f"deaths: {shown(deaths)}\nreturns: {shown(returns)}")
    judge(deaths, returns)


@pytest.mark.soak
def test_fifty_kills_of_a_real_rank_are_seen_by_everybody(
    backend: Backend, make_bootstrap: Make, nursery: Nursery, make_web: MakeWeb, note: Note
):
    bootstrap = make_bootstrap(backend).start()
    token, cookie = make_token(bootstrap.env, "eyes", "read"), session_keys(bootstrap.env)["vera"]
    web = make_web(bootstrap.env)
    times = max(5, round(50 * share()))
    deaths, returns = asyncio.run(kill_again_and_again(bootstrap, nursery, web, token, cookie, times=times))
    note("kills", times)
    note("seen", shown(deaths))
    note("right again", shown(returns))
    judge(deaths, returns)
