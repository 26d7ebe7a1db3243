"""The observer records what is new, says what does not fit, and does not ask more than it needs."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from controlplane.bootstrap.fleet import Fleet, Instance, Observed
from controlplane.bootstrap.mirroring import Mirror
from controlplane.bootstrap.observer import Observer
from controlplane.bootstrap.recorder import NOT_STORED, Staged
from controlplane.domain.errors import Refused
from controlplane.domain.observing import MOMENTS
from controlplane.ledger.writes import Writes
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.observed import Asker
from tests.doubles.serving import Server


class Directory(Server):
    """An engine's own bootstrap and engine-info servers in one: two ranks, and weights of those that `published`."""

    def __init__(self) -> None:
        super().__init__()
        self.first_port = 4001
        self.published: set[int] = set()
        self.asked: list[str] = []

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/route", self._route)
        app.router.add_get("/get_transfer_engine_info", self._info)

    async def _route(self, request: web.Request) -> web.Response:
        tp = int(request.query["target_tp_rank"])
        self.asked.append(f"tp{tp}")
        if tp == -1:
            sizes = {"attn_tp_size": 2, "attn_cp_size": 1, "dp_size": 1, "pp_size": 1}
            return web.json_response({**sizes, "page_size": 64, "kv_cache_dtype": "auto"})
        return web.json_response({"rank_ip": "127.0.0.1", "rank_port": self.first_port + tp})

    async def _info(self, request: web.Request) -> web.Response:
        rank = int(request.query["rank"])
        self.asked.append(f"rank{rank}")
        if rank not in self.published:
            return web.json_response({"detail": "none"}, status=404)
        info = [f"127.0.0.1:{7000 + rank}", {"w": [1, 2, 3]}]
        return web.json_response({"rank": rank, "remote_instance_transfer_engine_info": info})


class Recorder:
    """Decides as the real one does, and keeps what would be written instead of writing it."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.mirrors = 0
        self.away = False

    def submit(self, operation: Any) -> Any:
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        if self.away:
            operation.reply = NOT_STORED
            return done
        instance = operation.instance
        staged, writes = Staged(instance, instance.directory, instance.engines), Writes(1)
        try:
            operation.decide(staged, writes, time.time())
        except Refused as refused:
            operation.refuse(refused)
        instance.publish(staged.directory, staged.engines)
        self.kinds += [event[1] for event in writes.events]
        self.mirrors += isinstance(operation, Mirror)
        return done


class Complaints:
    def __init__(self) -> None:
        self.said: list[str] = []

    def about(self, instance: Instance | None, what: str, source: str, refused: Refused) -> None:
        self.said.append(refused.sentence)


@pytest.fixture
def server():
    started = Directory().start()
    yield started
    started.stop()


class Observing:
    """An observer of one instance, looking when a test says so."""

    def __init__(self, observed: Observed) -> None:
        self.fleet = Fleet(room_limit=10)
        self.instance = Instance(1, "a", observed=observed)
        self.fleet.add(self.instance)
        self.recorder, self.complaints = Recorder(), Complaints()

        async def parse(body: bytes) -> Any:
            raise AssertionError("small bodies are parsed here")

        asker = Asker(ProbePolicy(), 100_000)
        self.observer = Observer(self.fleet, self.recorder, asker, self.complaints, parse=parse)  # type: ignore[arg-type]

    async def look(self) -> str:
        return await self.observer._look(self.instance)


def test_a_look_that_finds_nothing_new_asks_once_and_writes_nothing(server):
    async def story() -> None:
        seen = Observing(Observed(server.url))
        await seen.look()
        assert seen.fleet.observed == [seen.instance]
        assert len(seen.instance.directory.current.rows) == 2
        assert seen.recorder.kinds.count("rank.registered") == 2 and "observation.turned" in seen.recorder.kinds
        before, server.asked = (list(seen.recorder.kinds), seen.recorder.mirrors), []
        await seen.look()
        assert (list(seen.recorder.kinds), seen.recorder.mirrors) == before and server.asked == ["tp-1"]

    asyncio.run(story())


def test_what_was_read_before_the_clock_was_set_back_is_read_again_in_its_time(server):
    async def story() -> None:
        seen = Observing(Observed(server.url))
        await seen.look()
        ahead = {name: time.time() + 3600 for name in MOMENTS}
        seen.observer._memories[1] = replace(seen.observer._memories[1], **ahead)
        known, now = seen.observer._memory(seen.instance), time.time()
        assert all(now - 60 < getattr(known, name) <= now for name in MOMENTS)

    asyncio.run(story())


def test_what_could_not_be_stored_is_read_again(server):
    async def story() -> None:
        seen = Observing(Observed(server.url))
        seen.recorder.away = True
        assert "could not be stored" in await seen.look()
        assert seen.instance.directory.current is None
        seen.recorder.away = False
        assert await seen.look() == ""
        assert len(seen.instance.directory.current.rows) == 2

    asyncio.run(story())


def test_reading_anew_asks_for_everything_and_says_what_it_found(server):
    async def story() -> None:
        seen = Observing(Observed(server.url))
        await seen.look()
        server.asked = []
        read, said = await seen.observer.fresh(seen.instance)
        assert read and said == f"{server.url} answers"
        assert set(server.asked) == {"tp-1", "tp0", "tp1"}

    asyncio.run(story())


def test_weights_are_read_once_each_and_again_for_those_that_were_missing(server):
    async def story() -> None:
        seen = Observing(Observed(server.url, server.url))
        server.published = {0}
        await seen.look()
        assert list(seen.instance.engines.live) == [0] and seen.instance.engines.live[0].session == "127.0.0.1:7000"
        server.asked = []
        await seen.look()
        assert not [asked for asked in server.asked if asked.startswith("rank")], "not each second"
        server.published = {0, 1}
        await seen.observer.fresh(seen.instance)
        assert sorted(seen.instance.engines.live) == [0, 1]
        assert seen.recorder.kinds.count("engine.published") == 2

    asyncio.run(story())


def test_nobody_registers_in_an_observed_instance_by_itself(server):
    instance = Instance(1, "a", observed=Observed("http://a:1", "http://a:2"))
    for what in ("ranks", "weights"):
        with pytest.raises(Refused, match=f"a is observed: its {what} are read at http://a:"):
            instance.check_writable(what)
    # A seed's weights are observed, and its ranks, if it ever has some, register.
    Instance(2, "b", observed=Observed("", "http://b:2")).check_writable("ranks")


def test_an_instance_that_was_retired_meanwhile_stays_as_it_is(server):
    async def story() -> None:
        seen = Observing(Observed(server.url, server.url))
        server.published = {0}
        seen.instance.intent = "retired"
        await seen.look()
        assert seen.instance.directory.current is None and not seen.instance.engines.live
        assert seen.recorder.kinds == []

    asyncio.run(story())
