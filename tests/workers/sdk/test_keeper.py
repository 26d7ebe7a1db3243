"""Ranks are registered for as long as their process lives, at a control plane and at SGLang's own server."""

import asyncio
import logging
import random
from contextlib import asynccontextmanager

import pytest

from tests.support.ports import free_port
from tests.workers.sdk.directory import Directory
from tests.workers.sdk.server import HANG, RESET, Said, say, serving
from tests.workers.sdk.waiting import soon
from workers.sdk import ControlPlane, Rank
from workers.sdk.backoff import Backoff
from workers.sdk.errors import NotAdvertisable, TimedOut, WorkerError
from workers.sdk.keeper import Keeper, check_advertised
from workers.sdk.keeping import Speaks
from workers.sdk.places import Place, read_place
from workers.sdk.wire import Wire

QUICK = Backoff(0.05, 0.2)


def ranks(count: int = 2, ip: str = "127.0.0.1") -> list[Rank]:
    return [
        Rank(rank_ip=ip, rank_port=41000 + n, page_size=64, attn_tp_size=count, attn_tp_rank=n) for n in range(count)
    ]


@asynccontextmanager
async def keeping(place: Place, **more):
    wire = Wire()
    at = ControlPlane(place, place, instance="prefill-a", token="secret")
    options = {"token": "launch-1", "worker": "w1", "lease_seconds": 0.3, "backoff": QUICK, **more}
    keeper = Keeper(wire, at, options.pop("ranks", ranks()), **options)
    running = asyncio.create_task(keeper.run())
    try:
        yield keeper
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait({running})
        await wire.aclose()


class Plane:
    """The control plane's two answers a worker needs; `directives` are what heartbeats are told."""

    def __init__(self) -> None:
        self.directives: list = []
        self.directory = Directory()
        self.beats: list[dict] = []
        self.puts = 0

    def answer(self, heard):
        if heard.path == "/pd/v1/heartbeats":
            self.beats.append(heard.json())
            return say({"directives": self.directives, "launch": 1})
        self.puts += heard.method == "PUT"
        return self.directory.answer(heard)


async def test_ranks_register_beat_and_send_token_launch_and_instance(serve):
    plane = Plane()
    server = serve(plane.answer)
    async with keeping(server.place) as keeper:
        standing = await keeper.registered(within=30)
        assert standing.is_registered and len(plane.directory.rows) == 2
        await soon(lambda: len(plane.beats) >= 3)
        assert keeper.standing.speaks is Speaks.CONTROL_PLANE and keeper.standing.launch == 1
    slots = [[0, 0, 0, 0], [0, 0, 1, 0]]
    assert plane.beats[0] == {"worker": "w1", "slots": slots, "generation": "launch-1", "lease_seconds": 0.3}
    for heard in server.heard:
        assert (heard.headers["x-pd-token"], heard.headers["x-pd-instance"]) == ("secret", "prefill-a")
    assert server.heard[0].headers["x-pd-generation"] == "launch-1"
    assert plane.puts == 2, "what was acknowledged is not sent again"


async def test_it_tries_until_somebody_listens_says_so_meanwhile_and_blocks_nobody(caplog):
    caplog.set_level(logging.INFO, logger="workers.sdk.keeper")
    place = Place("127.0.0.1", free_port())
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with keeping(place) as keeper:
        await soon(lambda: keeper.standing.trouble)
        with pytest.raises(TimedOut, match=r"tp0 pp0, .* not registered within 0\.5 s: .*refused"):
            await keeper.registered(within=0.5)
        assert not keeper.standing.is_registered and "refused" in keeper.standing.trouble
        with serving(Plane().answer, port=place.port):
            assert (await keeper.registered(within=30)).is_registered
    ticking.cancel()
    assert ticks > 10
    said = [record.getMessage() for record in caplog.records]
    assert sum("refused" in line for line in said) == 1, "the same trouble is logged once"
    assert any("2 ranks are registered" in line for line in said)


@pytest.mark.parametrize("bad", [RESET, Said(500, b"oops"), Said(503, b"not now"), Said(401, b"who?")])
async def test_it_goes_on_after_every_kind_of_refusal(serve, bad):
    plane, left = Plane(), [6]

    def answer(heard):
        left[0] -= 1
        return bad if left[0] >= 0 else plane.answer(heard)

    async with keeping(serve(answer).place) as keeper:
        assert (await keeper.registered(within=30)).is_registered


async def test_told_to_register_again_it_does_so_for_those_ranks_alone(serve):
    plane = Plane()
    async with keeping(serve(plane.answer).place) as keeper:
        await keeper.registered(within=30)
        plane.directives = [{"do": "register", "slots": [[0, 0, 1, 0]]}]
        await soon(lambda: plane.puts >= 3)
        plane.directives = []
        await soon(lambda: keeper.standing.is_registered)
        assert all(one["slots"] != [] for one in plane.beats)


async def test_a_listener_hears_when_a_drain_begins_and_ends_and_may_fail(serve):
    plane, heard = Plane(), []

    def listen(standing):
        heard.append(standing.draining)
        raise RuntimeError("the listener's own bug")

    async with keeping(serve(plane.answer).place, on_change=listen) as keeper:
        await keeper.registered(within=30)
        plane.directives = [{"do": "drain"}]
        await soon(lambda: keeper.standing.draining)
        plane.directives = []
        await soon(lambda: not keeper.standing.draining)
    changes = [now for before, now in zip([None, *heard], heard, strict=False) if now != before]
    assert changes == [False, True, False]


async def test_at_sglang_s_own_server_a_rank_registers_once_and_again_when_it_was_forgotten(serve):
    directory = Directory()
    async with keeping(serve(directory.answer).place) as keeper:
        await keeper.registered(within=30)
        await soon(lambda: keeper.standing.whole_once)
        assert keeper.standing.speaks is Speaks.SGLANG
        assert directory.calls == 2, "each more would be counted as another rank"
        directory.restart()
        await soon(lambda: len(directory.rows) == 2 and keeper.standing.is_registered)
        assert directory.calls == 2


async def test_at_sglang_s_own_server_it_waits_for_the_ranks_of_others_without_repeating_itself(serve):
    directory = Directory()
    async with keeping(serve(directory.answer).place, ranks=ranks(4)[:2]) as keeper:
        await keeper.registered(within=30)
        looks = [0]

        def count(heard):
            looks[0] += heard.method == "GET"

        directory.before = count
        await soon(lambda: looks[0] > 6)
        assert directory.calls == 2


async def test_a_directory_that_hangs_keeps_the_heartbeats_and_the_caller_going(serve, monkeypatch):
    monkeypatch.setattr("workers.sdk.keeper.TRY_SECONDS", 0.2)
    plane, hung = Plane(), [False]
    server = serve(lambda heard: HANG if hung[0] else plane.answer(heard))
    async with keeping(server.place) as keeper:
        await keeper.registered(within=30)
        hung[0] = True
        await soon(lambda: "within 0.2 s" in keeper.standing.trouble)
        assert keeper.standing.is_registered, "silence is no word that anything was lost"
        hung[0] = False
        await soon(lambda: not keeper.standing.trouble)


async def test_nobody_keeps_no_ranks_or_two_in_one_slot():
    at = ControlPlane(read_place("127.0.0.1"), read_place("127.0.0.1"))
    for wrong in ([], [*ranks(1), *ranks(1)]):
        with pytest.raises(WorkerError, match="slot of its own"):
            Keeper(Wire(), at, wrong, token="t", worker="w", dice=random.Random(1))


def test_loopback_is_not_advertised_to_a_control_plane_elsewhere():
    afar, here = read_place("192.0.2.1"), read_place("127.0.0.1")
    check_advertised(ControlPlane(here, here), ranks())
    check_advertised(ControlPlane(afar, afar), ranks(ip="10.0.1.10"))
    with pytest.raises(NotAdvertisable, match=r"127\.0\.0\.1 is loopback"):
        check_advertised(ControlPlane(afar, afar), ranks())


async def test_a_rank_whose_launch_nobody_knows_goes_without_a_token(serve):
    plane = Plane()
    server = serve(plane.answer)
    async with keeping(server.place, token="") as keeper:
        assert (await keeper.registered(within=30)).is_registered
        await soon(lambda: plane.beats)
    assert all("x-pd-generation" not in heard.headers for heard in server.heard)
    assert plane.beats[0]["generation"] is None
