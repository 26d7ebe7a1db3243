"""An engine's load as SGLang tells it: what counts, what is unknown, and when it was true by our clock."""

import datetime
import json
import time

import pytest

from controlplane.domain.errors import Refused
from controlplane.probes import loads
from controlplane.probes.loads import Engine as Asked
from controlplane.probes.loads import ask_all, parse, read_loads
from controlplane.queries.witnesses import ENGINE_LEASE_SECONDS
from tests.doubles.engine import Engine
from tests.support.ports import free_port

NOW = 5_000_000.0
ENGINES = 1_700_000_000.0


def answer(*loads: object, timestamp: object = "2023-11-14T22:13:20+00:00") -> bytes:
    return json.dumps({"timestamp": timestamp, "version": "0.5.23", "loads": loads}).encode()


def load(dp: object = 0, age: float = 0.0, **more: object) -> dict[str, object]:
    return {"timestamp": ENGINES - age, "dp_rank": dp, "num_running_reqs": 0, "num_waiting_reqs": 0, **more}


def test_a_reading_is_as_old_as_the_engines_own_two_clocks_say_and_never_younger_than_our_question():
    assert datetime.datetime.fromtimestamp(ENGINES, datetime.UTC).isoformat() == "2023-11-14T22:13:20+00:00"
    old, new, ahead = parse(answer(load(0, 7.5), load(1, 0.0), load(2, -3.0)), now=NOW)
    assert (old.taken_at, new.taken_at, ahead.taken_at) == (NOW - 7.5, NOW, NOW)
    assert len({old.mark, new.mark, ahead.mark}) == 3
    zulu = parse(answer(load(0, 1.0), timestamp="2023-11-14T22:13:20.5Z"), now=NOW)
    assert zulu[0].taken_at == pytest.approx(NOW - 1.5)


def test_a_count_that_is_not_said_is_unknown_and_not_zero():
    bare, partly, whole = parse(
        answer(
            load(0),
            load(1, disaggregation={"mode": "prefill", "prefill_bootstrap_queue_reqs": 2}),
            load(
                2,
                disaggregation={"prefill_bootstrap_queue_reqs": 0, "prefill_inflight_queue_reqs": 3},
                queues={"grammar": 1, "waiting": 9},
                num_waiting_uncached_tokens=5,
            ),
        ),
        now=NOW,
    )
    assert bare.counts == {"running": 0, "waiting": 0}
    assert partly.counts == {"running": 0, "waiting": 0, "bootstrap": 2}
    assert whole.counts == {
        "running": 0,
        "waiting": 0,
        "bootstrap": 0,
        "inflight": 3,
        "grammar": 1,
        "uncomputed_tokens": 5,
    }


@pytest.mark.parametrize("value", [-1, 1.5, True, "0", None, [], 2**70])
def test_what_is_not_a_count_is_unknown(value):
    (found,) = parse(answer(load(0, num_running_reqs=value)), now=NOW)
    assert "running" not in found.counts


def test_a_rank_that_cannot_be_placed_or_is_named_twice_is_left_out():
    loads = [
        load(0),
        load(-1),
        load("1"),
        load(True),
        load(9999),
        {**load(2), "timestamp": None},
        load(3),
        load(3),
        "x",
    ]
    assert [found.dp for found in parse(answer(*loads), now=NOW)] == [0]
    # A slot that was never written: a snapshot from the beginning of time.
    (empty,) = parse(answer({**load(0), "timestamp": 0.0}), now=NOW)
    assert NOW - empty.taken_at > 1e9
    assert parse(answer(load(0), timestamp="yesterday"), now=NOW) == ()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"loads": {}}', b"<html>secret</html>", b"[" * 100_000])
def test_what_is_not_such_an_answer_is_refused_and_not_repeated(body):
    with pytest.raises(Refused) as refused:
        parse(body, now=NOW)
    assert "secret" not in refused.value.sentence


async def test_a_real_answer_is_read_and_a_key_is_sent():
    with Engine(dp=2, key="sesame") as engine:
        engine.counts[1].inflight = 4
        found = await read_loads(engine.url, "sesame", now=time.time())
        assert [(each.dp, each.counts["inflight"]) for each in found.loads] == [(0, 0), (1, 4)]
        with pytest.raises(Refused, match="does not accept the API key"):
            await read_loads(engine.url, "wrong", now=time.time())


async def test_whoever_does_not_answer_holds_up_nobody_and_is_said_to_be_so():
    with Engine() as engine, Engine() as other:
        engines = {
            "up": Asked(engine.url),
            "gone": Asked(f"http://127.0.0.1:{free_port()}"),
            "elsewhere": Asked("http://198.51.100.7:30000"),
            "other": Asked(other.url),
        }
        found = await ask_all(engines, clock=time.time, at_once=2)
    assert [name for name, each in found.items() if each.loads] == ["up", "other"]
    assert found["gone"].problem.startswith("no usable answer came from 127.0.0.1:")
    assert "not asked from here" in found["elsewhere"].problem


async def test_a_reading_is_dated_by_when_its_own_engine_was_asked():
    with Engine() as engine:
        engines = {str(number): Asked(engine.url) for number in range(6)}
        moments = iter(range(100, 200))
        found = await ask_all(engines, clock=lambda: float(next(moments)), at_once=1)
    assert sorted(round(each.loads[0].taken_at) for each in found.values()) == [100, 101, 102, 103, 104, 105]
    assert "key" not in repr(Asked("http://a:1", "key"))


def test_a_fleet_of_engines_that_hang_is_asked_before_the_first_answer_is_old():
    assert 1000 / loads.AT_ONCE * loads.TIMEOUT_SECONDS < ENGINE_LEASE_SECONDS
