"""One look at an observed instance: what counts of it, what it costs, and to whom a key is sent."""

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web

from controlplane.access import secrets
from controlplane.bootstrap.fleet import Instance, Observed
from controlplane.bootstrap.looking import Looker, Pace
from controlplane.domain.observing import Memory, State
from controlplane.domain.topology import Slot
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.observed import Asker
from tests.doubles.engine import Engine
from tests.doubles.serving import Server
from tests.support.ports import free_port

LOOKER_LIMIT = 100_000


class Directory(Server):
    """An engine's own bootstrap server with two ranks; `moves` changes its page size while it is read."""

    page, moves, gaps = 64, False, 0

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/route", self._route)

    async def _route(self, request: web.Request) -> web.Response:
        tp = int(request.query["target_tp_rank"])
        if tp == -1:
            sizes = {"attn_tp_size": 2, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1}
            return web.json_response({**sizes, "page_size": self.page, "kv_cache_dtype": "auto"})
        if self.moves:
            self.page += 1
        if tp < self.gaps:
            return web.Response(status=500)
        return web.json_response({"rank_ip": "127.0.0.1", "rank_port": 4001 + tp})


@pytest.fixture
def directory():
    started = Directory().start()
    yield started
    started.stop()


def look(observed: Observed, role: str = "prefill", *, looks: int = 1) -> tuple[Memory, Any]:
    async def several() -> tuple[Memory, Any]:
        looker = Looker(Asker(ProbePolicy(), LOOKER_LIMIT), Pace())
        instance = Instance(1, "a", role, observed=observed)
        memory, listing = Memory(at=observed.url), None
        for _ in range(looks):
            memory, listing = await looker.look(instance, memory, fresh=False)
        return memory, listing

    return asyncio.run(several())


def test_who_sits_where_is_read_at_the_first_look(directory):
    memory, listing = look(Observed(directory.url))
    assert memory.state is State.LISTED
    assert listing.slots == {Slot(0, 0, 0, 0): ("127.0.0.1", 4001), Slot(0, 0, 1, 0): ("127.0.0.1", 4002)}


def test_a_reading_during_which_the_server_changed_does_not_count(directory):
    directory.moves = True
    memory, listing = look(Observed(directory.url))
    assert (memory.state, listing, memory.listed_at) == (State.LISTED, None, 0.0)


def test_a_reading_of_which_a_part_is_missing_does_not_count(directory):
    directory.gaps = 1
    assert look(Observed(directory.url))[1] is None


def test_a_server_that_is_not_there_is_refused_after_one_look_which_asks_twice():
    began = time.monotonic()
    memory, _ = look(Observed(f"http://127.0.0.1:{free_port()}"))
    assert memory.state is State.REFUSED and time.monotonic() - began >= 0.3


def test_an_engines_key_goes_to_its_own_server_and_nowhere_else():
    engine, other = Engine("decode", key="sk").start(), Engine("decode", key="sk").start()
    try:
        key = secrets.seal("sk")
        memory, _ = look(Observed(engine.url, "", engine.url, key), "decode")
        assert (memory.state, memory.said["mode"]) == (State.LISTED, "decode") and memory.identity
        assert look(Observed(other.url, "", engine.url, key), "decode")[0].state is State.STRANGE
        assert {asked.key for asked in other.asked} == {""}
    finally:
        engine.stop()
        other.stop()


def test_all_looks_together_keep_a_pace_after_a_first_burst():
    async def turns(count: int) -> float:
        pace = Pace(per_second=100, burst=10)
        began = time.monotonic()
        await asyncio.gather(*(pace.turn() for _ in range(count)))
        return time.monotonic() - began

    assert asyncio.run(turns(10)) < 0.1
    assert asyncio.run(turns(40)) >= 0.28
