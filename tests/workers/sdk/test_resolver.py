"""A prefill is resolved once for all who wait, kept while it holds, and one that hangs holds up no other."""

import asyncio
import json
import time

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.workers.sdk.directory import NOT_FOUND, Directory
from tests.workers.sdk.server import HANG, Said, say
from tests.workers.sdk.waiting import soon
from workers.sdk import ControlPlane, Place, Question, read_decode
from workers.sdk.errors import (
    Disagreement,
    Incompatible,
    NotAllowed,
    NotReady,
    Overloaded,
    TimedOut,
    Unreachable,
    WorkerError,
)
from workers.sdk.ranks import Rank
from workers.sdk.resolver import MOST_WAITING, Resolver
from workers.sdk.wire import Wire

GENEROUS = 20.0
SAID = {"tp_size": 1, "pp_size": 1, "is_mla": False, "page_size": 64, "kv_cache_dtype": "auto"}
TP1 = Question(read_decode(SAID))


def filled(tp: int = 2, dp: int = 1, first_port: int = 41000, **facts) -> Directory:
    directory = Directory()
    fill(directory, tp, dp, first_port, **facts)
    return directory


def fill(directory: Directory, tp: int = 2, dp: int = 1, first_port: int = 41000, **facts) -> None:
    for d in range(dp):
        for t in range(tp):
            rank = Rank(
                rank_ip="10.0.1.10",
                rank_port=first_port + d * tp + t,
                page_size=64,
                attn_tp_size=tp,
                attn_tp_rank=t,
                attn_dp_size=dp,
                attn_dp_rank=d,
                **facts,
            )
            directory._put(json.loads(rank.body()))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def resolver_at(clock):
    made, wires = [], []

    def make(place: Place, *, api: Place | None = None, token: str | None = "secret", instance="prefill-a", **more):
        wire = Wire()
        wires.append(wire)
        plane = ControlPlane(place, place, api, instance, token)
        made.append(Resolver(wire, plane, clock=clock, **more))
        return made[-1]

    yield make
    for resolver in made:
        resolver.close()
    for wire in wires:
        await wire.aclose()


def ports(resolved, dp: int = 0) -> list[int]:
    return [target.port for target in resolved.targets(dp)]


async def test_sglang_s_own_wire_is_asked_rank_by_rank_over_one_connection(serve, resolver_at):
    server = serve(filled(tp=4, dp=2).answer)
    resolver = resolver_at(server.place)
    found = await resolver.resolve(TP1)
    assert ports(found, 0) == [41000, 41001, 41002, 41003] and ports(found, 1) == [41004, 41005, 41006, 41007]
    assert found.rank().mapping.required_prefill_response_num == 4
    assert found.dp_of(7) == 1 and found.follow_bootstrap_room
    assert found.targets(1)[0].endpoint == "tcp://10.0.1.10:41004"
    assert server.connections == 1
    assert await resolver.resolve(TP1) is found and resolver.asked == 1


async def test_the_door_or_the_api_answers_everything_in_one_round_trip(serve, resolver_at):
    server = serve(plane_with(etag="1-aa", port=41000))
    found = await resolver_at(server.place).resolve(TP1)
    assert (found.launch, found.identity, ports(found)) == (1, "1-aa", [41000])
    assert server.paths == ["/pd/v1/resolve"]
    asked = server.heard[0].json()
    assert asked == {
        "instance": "prefill-a",
        "decode": SAID,
        "engine_rank": None,
        "pp_rank": 0,
        "dp": None,
    }
    kv = serve(filled().answer)
    api = serve(plane_with(path="/api/v1/resolve", etag="1-bb", port=42000))
    resolver = resolver_at(kv.place, api=api.place)
    assert ports(await resolver.resolve(TP1)) == [42000]
    assert kv.paths == ["/pd/v1/resolve"] and api.heard[0].headers["x-pd-token"] == "secret"
    # What the door does not know it is not asked for again.
    other = Question(read_decode({"tp_size": 1}), engine_rank=0)
    await resolver.resolve(other)
    assert len(kv.paths) == 1 and len(api.paths) == 2


def plane_with(*, path: str = "/pd/v1/resolve", **said):
    """A control plane that resolves to one rank; `said` may be changed while it serves."""

    def answer(heard):
        if heard.path != path:
            return NOT_FOUND
        if heard.headers.get("if-none-match") == f'"{said["etag"]}"':
            return Said(304, b"", {"ETag": f'"{said["etag"]}"'})
        target = {"slot": "dp0.cp0.tp0.pp0", "address": f"10.0.1.10:{said['port']}", "dummy": False}
        mapping = {
            "target_tp_rank": 0,
            "target_tp_ranks": [0],
            "target_cp_ranks": [0],
            "target_pp_ranks": [0],
            "required_dst_info_num": 1,
            "required_prefill_response_num": 1,
        }
        rank = {"engine_rank": 0, "pp_rank": 0, **mapping, "groups": [{"dp": 0, "targets": [target]}]}
        body = {
            "instance": "prefill-a",
            "launch": 1,
            "token": None,
            "topology": {"dp": 1, "cp": 1, "tp": 1, "pp": 1},
            "follow_bootstrap_room": True,
            "ranks": [rank],
            "intent": "enabled",
            "cursor": "l:1",
            "old": False,
            "open": [{"sentence": "nobody said kv_layout"}],
        }
        return Said(200, say(body).body, {"ETag": f'"{said["etag"]}"', "Content-Type": "application/json"})

    answer.said = said
    return answer


async def test_an_answer_that_is_old_is_confirmed_by_its_etag_and_replaced_when_it_changed(serve, resolver_at, clock):
    plane = plane_with(etag="1-aa", port=41000)
    server = serve(plane)
    resolver = resolver_at(server.place)
    first = await resolver.resolve(TP1)
    clock.now += 4
    assert await resolver.resolve(TP1) is first and len(server.heard) == 1
    clock.now += 2
    assert await resolver.resolve(TP1) is first
    assert server.heard[1].headers["if-none-match"] == '"1-aa"'
    plane.said.update(etag="2-bb", port=42000)
    clock.now += 6
    assert ports(await resolver.resolve(TP1)) == [42000]


async def test_an_old_answer_of_a_plain_server_is_checked_at_one_rank_in_turn(serve, resolver_at, clock):
    directory = filled(tp=4)
    server = serve(directory.answer)
    resolver = resolver_at(server.place)
    first = await resolver.resolve(TP1)
    before = len(server.heard)
    clock.now += 6
    assert await resolver.resolve(TP1) is first
    assert len(server.heard) - before == 2
    directory.restart()
    fill(directory, tp=4, first_port=42000)
    clock.now += 6
    assert ports(await resolver.resolve(TP1)) == [42000, 42001, 42002, 42003]


async def test_fifty_who_ask_at_once_are_answered_by_one_question(serve, resolver_at):
    server = serve(filled().answer)
    resolver = resolver_at(server.place)
    answers = await asyncio.gather(*(resolver.resolve(TP1) for _ in range(50)))
    assert len({id(answer) for answer in answers}) == 1 and resolver.asked == 1


async def test_a_place_that_hangs_holds_up_nobody_who_asks_for_another(serve, resolver_at, clock):
    good, bad = serve(filled().answer), serve(lambda heard: HANG)
    resolver = resolver_at(good.place)
    stuck = [asyncio.create_task(resolver.resolve(TP1, place=bad.place, within=1.0)) for _ in range(10)]
    await soon(lambda: bad.heard)
    began = time.monotonic()
    for _ in range(10):
        await resolver.resolve(TP1)
    took = time.monotonic() - began
    failed = await asyncio.gather(*stuck, return_exceptions=True)
    assert took / slowness() < 1.0
    assert all(isinstance(one, TimedOut) and str(bad.place) in one.sentence and one.status == 503 for one in failed)
    assert len(bad.heard) == 1, "ten requests are one question"


async def test_a_place_that_is_away_is_not_asked_again_by_every_request(resolver_at, clock):
    away = Place("127.0.0.1", free_port())
    resolver = resolver_at(away)
    for _ in range(20):
        with pytest.raises(Unreachable, match=str(away)):
            await resolver.resolve(TP1)
    assert resolver.asked == 1
    clock.now += 1
    with pytest.raises(Unreachable):
        await resolver.resolve(TP1)
    assert resolver.asked == 2


async def test_what_is_known_is_used_on_while_the_directory_is_away_but_not_what_failed(serve, resolver_at, clock):
    directory = filled()
    resolver = resolver_at(serve(directory.answer).place)
    first = await resolver.resolve(TP1)
    directory.before = lambda heard: b""
    for _ in range(3):
        clock.now += 6
        assert await resolver.resolve(TP1) is first
    assert resolver.invalidate(first)
    with pytest.raises(Unreachable):
        await resolver.resolve(TP1)


async def test_a_failure_takes_back_its_own_launch_and_none_that_is_newer(serve, resolver_at, clock):
    directory = filled()
    resolver = resolver_at(serve(directory.answer).place)
    old = await resolver.resolve(TP1)
    directory.restart()
    fill(directory, first_port=42000)
    assert resolver.invalidate(old) and not resolver.invalidate(old)
    new = await resolver.resolve(TP1)
    assert ports(new) == [42000, 42001]
    # Another request of the old launch fails now.
    assert not resolver.invalidate(old)
    assert await resolver.resolve(TP1) is new


async def test_an_instance_that_changes_while_it_is_asked_is_never_mixed(serve, resolver_at):
    directory = filled(tp=2)

    def change(heard):
        if "target_tp_rank=1" in heard.path:
            directory.before = lambda heard: None
            directory.restart()
            fill(directory, tp=4, first_port=42000)

    directory.before = change
    resolver = resolver_at(serve(directory.answer).place)
    with pytest.raises(NotReady, match="changed while it was asked"):
        await resolver.resolve(TP1)
    assert ports(await resolver.resolve(TP1)) == [42000, 42001, 42002, 42003]


async def test_who_may_wait_until_a_prefill_is_ready_is_answered_when_it_is(serve, resolver_at):
    directory = Directory()
    wire = Wire()
    place = serve(directory.answer).place
    resolver = Resolver(wire, ControlPlane(place, place))
    with pytest.raises(NotReady, match="0 workers registered"):
        await resolver.resolve(TP1)
    waiting = asyncio.create_task(resolver.until_ready(TP1, within=GENEROUS))
    await soon(lambda: resolver.asked > 2)
    fill(directory)
    assert ports(await waiting) == [41000, 41001]
    directory.restart()
    resolver.invalidate(waiting.result())
    with pytest.raises((NotReady, TimedOut)):
        await resolver.until_ready(TP1, within=0.3)
    await wire.aclose()


@pytest.mark.parametrize(
    ("decode", "why"),
    [
        ({"tp_size": 1, "page_size": 32}, "page_size differs"),
        ({"tp_size": 3, "page_size": 64}, "do not divide"),
        ({"page_size": 64}, "tp_size is needed"),
    ],
)
async def test_a_pair_that_cannot_work_is_refused_with_the_reason(serve, resolver_at, decode, why):
    resolver = resolver_at(serve(filled().answer).place)
    with pytest.raises(Incompatible, match=why):
        await resolver.resolve(Question(read_decode(decode)))


async def test_a_decode_that_does_not_say_what_the_mapping_depends_on_is_told_what_to_say(serve, resolver_at):
    resolver = resolver_at(serve(filled(tp=4).answer).place)
    with pytest.raises(Incompatible, match="is_mla is needed"):
        await resolver.resolve(Question(read_decode({"tp_size": 1})))
    assert await resolver.resolve(Question(read_decode({"tp_size": 1, "is_mla": False})))


async def test_refusals_of_the_control_plane_keep_their_kind_and_an_api_that_is_away_costs_nothing(
    serve, resolver_at, clock
):
    pair = say({"detail": "page_size differs", "code": "conflict"}, 409)
    with pytest.raises(Disagreement, match="409: page_size differs"):
        await resolver_at(serve(lambda heard: pair).place).resolve(TP1)
    kv = serve(filled().answer)
    denied = serve(lambda heard: say({"detail": "this token may not resolve"}, 403))
    for api in (Place("127.0.0.1", free_port()), denied.place):
        resolver = resolver_at(kv.place, api=api)
        assert ports(await resolver.resolve(TP1)) == [41000, 41001]
    no_entry = serve(lambda heard: Said(403, b"10.0.0.9 may not read here"))
    with pytest.raises(NotAllowed, match="may not read here"):
        await resolver_at(no_entry.place).resolve(TP1)


async def test_our_token_goes_to_no_server_that_a_request_names(serve, resolver_at):
    own, other = serve(filled().answer), serve(filled(first_port=43000).answer)
    resolver = resolver_at(own.place)
    assert ports(await resolver.resolve(TP1, place=other.place)) == [43000, 43001]
    assert ports(await resolver.resolve(TP1, place=own.place)) == [41000, 41001]
    assert not any("x-pd-token" in heard.headers or "x-pd-instance" in heard.headers for heard in other.heard)
    assert all(heard.headers["x-pd-token"] == "secret" for heard in own.heard)


async def test_those_who_wait_for_one_place_are_bounded(serve, resolver_at):
    resolver = resolver_at(serve(lambda heard: HANG).place)
    waiting = [asyncio.create_task(resolver.resolve(TP1, within=GENEROUS)) for _ in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=f"{MOST_WAITING} requests wait"):
        await resolver.resolve(TP1)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_what_was_not_asked_for_is_not_answered(serve, resolver_at):
    resolver = resolver_at(serve(filled(dp=2).answer).place)
    found = await resolver.resolve(Question(TP1.decode, engine_rank=0, dp=1))
    assert ports(found, 1) == [41002, 41003]
    with pytest.raises(WorkerError, match="DP group 0 was not asked for"):
        found.targets(0)
    with pytest.raises(WorkerError, match="engine rank 3"):
        found.targets(1, 3)


async def test_with_mla_the_first_of_a_run_sends_and_the_others_are_only_told(serve, resolver_at):
    resolver = resolver_at(serve(filled(tp=4).answer).place)
    mla = Question(read_decode({"tp_size": 2, "is_mla": True, "page_size": 64}), engine_rank=1)
    found = await resolver.resolve(mla)
    assert [(target.port, target.dummy) for target in found.targets(0, 1)] == [(41002, False), (41003, True)]
