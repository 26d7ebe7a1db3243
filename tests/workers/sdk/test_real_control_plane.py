"""The SDK and the real control plane: what one sends the other understands, and what changes there is heard here."""

import asyncio
import time

import pytest

from tests.wire.operators import rows
from tests.workers.sdk.plane import RealPlane, real_plane
from tests.workers.sdk.waiting import soon
from workers.sdk import AsyncClient, Client, Disagreement, NotAllowed, NotFound, NotReady, Question, Rank, read_decode
from workers.sdk.keeping import Speaks
from workers.sdk.ways import API_PATH, DOOR_PATH, in_one, rank_by_rank
from workers.sdk.wire import Wire

GENEROUS = 30.0
TP1 = Question(
    read_decode({"tp_size": 1, "cp_size": 1, "pp_size": 1, "is_mla": False, "page_size": 64, "kv_layout": None})
)


@pytest.fixture(scope="module")
def plane(sqlite_template, tmp_path_factory):
    with real_plane(sqlite_template, tmp_path_factory.mktemp("plane"), PDCP_REGISTER_BY="token") as started:
        yield started


@pytest.fixture(scope="module")
def token(plane: RealPlane) -> str:
    return plane.token("fleet", "register", "resolve", "read", "report", "engine-info")


def ranks(tp: int = 2, dp: int = 1, port: int = 41000, **facts) -> list[Rank]:
    return [
        Rank(
            rank_ip="127.0.0.1",
            rank_port=port + d * tp + t,
            page_size=64,
            attn_tp_size=tp,
            attn_tp_rank=t,
            attn_dp_size=dp,
            attn_dp_rank=d,
            **facts,
        )
        for d in range(dp)
        for t in range(tp)
    ]


async def elsewhere(do, *words):
    """In a thread: this loop beats meanwhile."""
    return await asyncio.to_thread(do, *words)


def ports(resolved) -> list[int]:
    return sorted(target.port for target in resolved.all_targets())


async def test_a_prefill_registers_and_a_decode_resolves_binds_and_finds(plane, token):
    at = plane.at("prefill-a", token)
    async with AsyncClient(at, token="launch-1") as prefill, AsyncClient(at, token="decode-1") as decode:
        kept = await prefill.register(ranks(tp=2, dp=2, load_balance_method="round_robin"))
        await kept.registered(within=GENEROUS)
        found = await decode.until_ready(TP1, within=GENEROUS)
        assert (found.launch, found.token, found.instance, found.intent) == (1, "launch-1", "prefill-a", "enabled")
        assert ports(found) == [41000, 41001, 41002, 41003]
        room = decode.mint.room(dp_size=2, dp=1)
        assert found.dp_of(room) is None, "this prefill does not follow the room"
        waiting = asyncio.create_task(decode.dp_of(room, found, within=GENEROUS))
        await prefill.bind(room, ranks(tp=2, dp=2)[2])
        assert await waiting == 1
        await soon(lambda: kept.standing.speaks is Speaks.CONTROL_PLANE)
        assert kept.standing.launch == 1 and not kept.standing.draining


async def test_every_way_to_resolve_says_the_same(plane, token):
    at, wire = plane.at("prefill-ways", token), Wire()
    async with AsyncClient(at, token="launch-1") as client:
        await (await client.register(ranks(tp=4, dp=2, prefill_http_port=30000))).registered(within=GENEROUS)
        for tp, mla in ((1, False), (2, False), (2, True), (8, False)):
            question = Question(read_decode({**TP1.decode.said, "tp_size": tp, "is_mla": mla}))
            await client.until_ready(question, within=GENEROUS)
            by_wire = await rank_by_rank(wire, at, question, within=5)
            by_api = await in_one(wire, at, at.api, API_PATH, question, None, within=5)
            assert await in_one(wire, at, at.api, API_PATH, question, by_api, within=5) is by_api, "304"
            assert by_api.ranks == by_wire.ranks and by_api.topology == by_wire.topology
            assert by_api.follow_bootstrap_room and by_wire.follow_bootstrap_room
            try:
                by_door = await in_one(wire, at, at.kv, DOOR_PATH, question, None, within=5)
            except NotFound:
                continue
            assert (by_door.ranks, by_door.identity, by_door.launch) == (by_api.ranks, by_api.identity, by_api.launch)
            assert await in_one(wire, at, at.kv, DOOR_PATH, question, by_door, within=5) is by_door
    await wire.aclose()


async def test_what_changes_is_heard_and_until_then_nothing_is_asked(plane, token):
    at = plane.at("prefill-watch", token)
    # So old may nothing be that nobody vouches for: an answer that is kept is one that the watcher vouches for.
    async with AsyncClient(at, token="launch-1") as prefill, AsyncClient(at, token="d", max_age=0.0) as decode:
        await (await prefill.register(ranks(tp=1))).registered(within=GENEROUS)
        await soon(lambda: decode.watcher.current)
        first = await decode.until_ready(TP1, within=GENEROUS)

        async def vouched() -> bool:
            before = decode.resolver.asked
            return await decode.resolve(TP1) is not None and decode.resolver.asked == before

        end = time.monotonic() + GENEROUS
        while not await vouched():
            assert time.monotonic() < end
        asked = decode.resolver.asked
        for _ in range(50):
            assert (await decode.resolve(TP1)).identity == first.identity
        assert decode.resolver.asked == asked
        # Nobody was ever reached at the old rank, so that the new launch takes over at once.
        async with AsyncClient(at, token="launch-2") as again:
            await (await again.register(ranks(tp=1, port=42000))).registered(within=GENEROUS)
            end = time.monotonic() + GENEROUS
            while True:
                try:
                    if ports(await decode.resolve(TP1)) == [42000]:
                        break
                except NotReady:
                    pass
                assert time.monotonic() < end
                await asyncio.sleep(0.05)


async def test_a_worker_hears_that_it_must_register_again_and_that_it_drains(plane, token):
    at = plane.at("prefill-told", token)
    async with AsyncClient(at, token="launch-1") as client:
        kept = await client.register(ranks(tp=1), lease_seconds=3)
        await kept.registered(within=GENEROUS)
        # Only who beats can be told.
        await soon(lambda: kept.standing.speaks is Speaks.CONTROL_PLANE)
        seen = rows(plane.backend, "SELECT max(seen_at) FROM controlplane_rank WHERE port = 41000")
        await elsewhere(plane.command, "reregister", "prefill-told")
        await soon(lambda: rows(plane.backend, "SELECT max(seen_at) FROM controlplane_rank WHERE port = 41000") > seen)
        await elsewhere(plane.command, "drain", "prefill-told")
        await soon(lambda: kept.standing.draining)
        await elsewhere(plane.command, "uncordon", "prefill-told")
        await soon(lambda: not kept.standing.draining)
        assert kept.standing.is_registered


async def test_a_restart_of_the_control_plane_disturbs_neither_ranks_nor_decodes(sqlite_template, tmp_path):
    with real_plane(sqlite_template, tmp_path, web=False) as plane:
        at = plane.at("default", api=False)
        async with AsyncClient(at, token="launch-1", max_age=0.0) as client:
            kept = await client.register(ranks(tp=2), lease_seconds=1)
            await kept.registered(within=GENEROUS)
            before = await client.until_ready(TP1, within=GENEROUS)
            plane.bootstrap.kill9()
            await soon(lambda: kept.standing.trouble)
            assert (await client.resolve(TP1)).identity == before.identity, "what is known is used on"
            plane.bootstrap.start()
            await soon(lambda: not kept.standing.trouble)
            assert kept.standing.is_registered
            assert (await client.until_ready(TP1, within=GENEROUS)).identity == before.identity


def test_the_blocking_client_does_the_same(plane, token):
    with Client(plane.at("prefill-sync", token), token="launch-1") as client:
        rank = ranks(tp=1, load_balance_method="round_robin", attn_cp_size=1)[0]
        kept = client.register([rank])
        assert kept.wait(within=GENEROUS).is_registered
        found = client.until_ready(TP1, within=GENEROUS)
        room = client.mint.room()
        client.bind(room, rank)
        assert client.find_rooms([room, room + 1], within=0.5) == {room: 0}
        assert client.dp_of(room, found) == 0
        client.publish_weights(0, "127.0.0.1:17001", {"embed": (2**63 + 7, 3, 2), "empty": (0, 0, 4)})
        weights = client.fetch_weights(0)
        assert weights.session_id == "127.0.0.1:17001"
        assert weights.tensors() == {"embed": (2**63 + 7, 3, 2), "empty": (0, 0, 4)}


async def test_open_rooms_are_told_and_zero_is_a_count(plane, token):
    at = plane.at("prefill-rooms", token)
    async with AsyncClient(at, token="launch-1", worker="host/1") as client:
        await (await client.register(ranks(tp=1, dp=2))).registered(within=GENEROUS)
        open_rooms = {0: 3, 1: 0}
        client.reports.count_open("prefill-rooms", lambda: dict(open_rooms), launch_token="launch-1")
        what = "SELECT \"group\", open_rooms FROM controlplane_openrooms WHERE instance = 'prefill-rooms' ORDER BY 1"
        files = ("controlplane.sqlite3", "traffic.sqlite3")

        def told() -> list:
            for file in files:
                try:
                    found = rows(plane.backend, what, file=file)
                except Exception:
                    continue
                if found:
                    return found
            return []

        await soon(lambda: told() == [(0, 3), (1, 0)])
        open_rooms[0] = 0
        await soon(lambda: told() == [(0, 0), (1, 0)])


async def test_errors_of_the_control_plane_are_typed(plane, token):
    foreign = plane.token("elsewhere", "register", instance="other")
    async with AsyncClient(plane.at("prefill-none", token), token="x") as client:
        with pytest.raises((NotFound, NotReady)):
            await client.resolve(TP1)
    async with AsyncClient(plane.at("prefill-a", foreign), token="x", watch=False) as client:
        with pytest.raises(NotAllowed, match="other"):
            await client.bind(1, 0)
    async with AsyncClient(plane.at("prefill-pair", token), token="x") as client:
        await (await client.register(ranks(tp=1))).registered(within=GENEROUS)
        await client.until_ready(TP1, within=GENEROUS)
        with pytest.raises(Disagreement, match="page_size differs"):
            await client.resolve(Question(read_decode({**TP1.decode.said, "page_size": 32})))
