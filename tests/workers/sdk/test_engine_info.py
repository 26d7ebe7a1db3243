"""Weights dictionaries are published and fetched within limits of bytes, silence and time."""

import json
import time

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.workers.sdk.server import HANG, RESET, Said, say
from workers.sdk import ControlPlane, Patience, Place, order_of, start_slot
from workers.sdk.engine_info import LOADER_PATH, EngineInfo, check_weights, encoded_parts
from workers.sdk.errors import Disagreement, Garbled, NotFound, Refusal, TimedOut, TooLarge, Unreachable, WorkerError
from workers.sdk.wire import Wire

QUICK = Patience(total=20, each=5, stall=0.3)
WEIGHTS = {f"layers.{n}": (2**63 + n, n, 2) for n in range(10)}


def info(rank: int = 0, session: str = "10.0.0.1:17001", weights=WEIGHTS) -> Said:
    return say({"rank": rank, "remote_instance_transfer_engine_info": [session, weights]})


@pytest.fixture
async def at():
    wires = []

    def make(place: Place, token: str | None = "secret") -> EngineInfo:
        wires.append(Wire())
        return EngineInfo(wires[-1], ControlPlane(place, place, None, "seed", token))

    yield make
    for wire in wires:
        await wire.aclose()


@pytest.mark.parametrize("count", [0, 1, 2000, 2001, 5000])
async def test_what_is_published_is_one_dictionary_however_many_parts_it_was_sent_in(serve, at, count):
    server = serve(lambda heard: Said())
    weights = {f"layers.{n}.ü": (2**64 - 1 - n, n, 2) for n in range(count)}
    await at(server.place).publish(3, "10.0.0.1:17001", weights, tp_rank=1)
    sent = server.heard[0].json()
    assert (sent["rank"], sent["tp_rank"]) == (3, 1)
    told = sent["transfer_engine_info"]
    assert told["session_id"] == "10.0.0.1:17001"
    assert {name: tuple(tensor) for name, tensor in told["weights_info_dict"].items()} == weights
    assert server.heard[0].headers["x-pd-token"] == "secret"


async def test_publishing_is_tried_again_while_nobody_answers_but_not_against_a_living_session(serve, at):
    left = [3]

    def answer(heard):
        left[0] -= 1
        return Said(503, b"not now") if left[0] >= 0 else Said()

    server = serve(answer)
    await at(server.place).publish(0, "s", WEIGHTS, within=20)
    assert len(server.heard) == 4
    taken = serve(lambda heard: say({"detail": "rank 0 is served by a living session"}, 409))
    with pytest.raises(Disagreement, match="living session"):
        await at(taken.place).publish(0, "s", WEIGHTS, within=20)
    assert len(taken.heard) == 1


async def test_what_is_too_large_is_not_sent_and_what_is_no_tensor_is_named(serve, at, monkeypatch):
    server = serve(lambda heard: Said())
    monkeypatch.setattr("workers.sdk.engine_info.BODY_LIMIT", 300)
    with pytest.raises(TooLarge, match="300"):
        await at(server.place).publish(0, "s", WEIGHTS)
    assert server.heard == []
    for wrong in ((1, 2), (-1, 1, 1), (2**64, 1, 1), (True, 1, 1), (1.0, 1, 1)):
        with pytest.raises(WorkerError, match=r"layers\.9"):
            check_weights({"layers.9": wrong})


async def test_what_is_fetched_is_exact_to_the_last_digit(serve, at):
    server = serve(lambda heard: info(rank=5))
    weights = await at(server.place).fetch(5)
    assert (weights.rank, weights.session_id, weights.tensors()) == (5, "10.0.0.1:17001", WEIGHTS)
    assert server.paths == ["/get_transfer_engine_info?rank=5"]


async def test_a_server_that_says_503_five_times_is_asked_a_sixth(serve, at):
    server = serve(lambda heard: info() if len(server.heard) > 5 else Said(503, b"not yet"))
    assert (await at(server.place).fetch(0)).tensors() == WEIGHTS


async def test_an_answer_that_breaks_off_half_way_is_asked_for_again(serve, at):
    whole = info(weights={f"layers.{n}": (n, n, 2) for n in range(20_000)})
    half = Said(200, whole.body, whole.headers, cut=len(whole.body) // 2)
    server = serve(lambda heard: whole if len(server.heard) > 2 else half)
    assert len((await at(server.place).fetch(0)).tensors()) == 20_000


@pytest.mark.parametrize("answer", [HANG, Said(after=40), RESET], ids=["silent", "late", "cut"])
async def test_who_never_answers_costs_no_more_than_the_budget_and_says_why(serve, at, answer):
    server = serve(lambda heard: answer)
    began = time.monotonic()
    with pytest.raises(TimedOut, match=r"not within 1 s; at last: 127\.0\.0\.1"):
        await at(server.place).fetch(0, patience=Patience(total=1, each=0.5, stall=0.3))
    assert (time.monotonic() - began) / slowness() < 3
    assert await at(server.place).fetch_or_none(0, patience=Patience(total=0.3)) is None


async def test_the_next_source_is_asked_when_one_fails(serve, at):
    silent, empty = serve(lambda heard: HANG), serve(lambda heard: say({"detail": "No transfer engine info"}, 404))
    good = serve(lambda heard: info())
    away = Place("127.0.0.1", free_port())
    sources = [silent.place, empty.place, away, good.place]
    assert (await at(good.place).fetch(0, sources=sources, patience=QUICK)).tensors() == WEIGHTS
    assert "x-pd-token" not in silent.heard[0].headers and "x-pd-token" in good.heard[0].headers


async def test_a_rank_that_nobody_published_is_not_found_or_waited_for(serve, at):
    missing = say({"detail": "No transfer engine info for rank 0"}, 404)
    server = serve(lambda heard: info() if len(server.heard) > 3 else missing)
    with pytest.raises(NotFound, match="No transfer engine info"):
        await at(server.place).fetch(0)
    assert (await at(server.place).fetch(0, none_yet=True)).tensors() == WEIGHTS


async def test_an_engine_s_own_port_is_asked_by_the_loader_s_path(serve, at):
    server = serve(lambda heard: info() if heard.path.startswith(LOADER_PATH) else say({"detail": "Not Found"}, 404))
    assert (await at(server.place).fetch(0)).tensors() == WEIGHTS


async def test_limits_of_bytes_and_of_sense_are_kept(serve, at):
    server = serve(lambda heard: info(weights={"x" * 5000: (1, 1, 1)}))
    with pytest.raises(TooLarge):
        await at(server.place).fetch(0, patience=Patience(most_bytes=1000))
    odd = serve(lambda heard: info(weights={"a": (-1, 2, 3)}))
    with pytest.raises(WorkerError, match="cannot be read"):
        (await at(odd.place).fetch(0)).tensors()
    with pytest.raises(Garbled):
        await at(serve(lambda heard: say({"rank": 0})).place).fetch(0)
    with pytest.raises(Refusal, match="400"):
        await at(serve(lambda heard: Said(400, b"Invalid rank")).place).fetch(-1)
    with pytest.raises(WorkerError, match="no source"):
        await at(server.place).fetch(0, sources=[])
    assert issubclass(TimedOut, Unreachable)


def test_receivers_spread_over_the_seeds_and_over_time_each_always_alike():
    seeds = [Place("10.0.0.1", 6789), Place("10.0.0.2", 6789), Place("10.0.0.3", 6789)]
    receivers = [f"replica-{replica}/{rank}" for replica in range(8) for rank in range(8)]
    firsts = [order_of(seeds, receiver)[0] for receiver in receivers]
    assert all(10 <= firsts.count(seed) <= 33 for seed in seeds)
    assert all(sorted(order_of(seeds, one), key=str) == seeds for one in receivers)
    assert firsts == [order_of(seeds, receiver)[0] for receiver in receivers]
    slots = [start_slot(receiver, slots=4, seconds=2.0) for receiver in receivers]
    assert set(slots) == {0.0, 0.5, 1.0, 1.5} and max(slots.count(slot) for slot in set(slots)) < 33
    assert order_of([], "x") == []


def test_parts_are_never_larger_than_two_thousand_tensors():
    weights = {str(n): (n, n, n) for n in range(4500)}
    parts = list(encoded_parts(0, 0, 'a "quoted" session', weights))
    assert len(parts) == 5
    assert json.loads(b"".join(parts))["transfer_engine_info"]["session_id"] == 'a "quoted" session'
