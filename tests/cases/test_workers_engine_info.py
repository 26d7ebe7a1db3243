"""Public reports, the workers' half: weights dictionaries are fetched within limits, and not all from one seed at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.machine import slowness
from tests.workers.sdk.server import HANG, Said, say, serving
from workers.sdk import Client, ControlPlane, Patience, TimedOut, order_of, start_slot

SIX_MB = {f"model.layers.{n}.mlp.weight": (2**47 + n, 4096, 2) for n in range(120_000)}


def info(weights: dict) -> Said:
    return say({"rank": 0, "remote_instance_transfer_engine_info": ["10.0.0.1:17001", weights]})


def fetching(server, patience: Patience):
    with Client(ControlPlane(server.place, server.place)) as client:
        return client.fetch_weights(0, patience=patience)


def test_ENG_06_a_server_that_never_answers_or_late_costs_the_budget_and_no_more():
    for answer in (HANG, Said(after=40)):
        with serving(lambda heard, answer=answer: answer) as server:
            began = time.monotonic()
            with pytest.raises(TimedOut, match=r"not within 2 s; at last: 127\.0\.0\.1.*silent for 0\.5 s"):
                fetching(server, Patience(total=2, each=5, stall=0.5))
            assert (time.monotonic() - began) / slowness() < 5


def test_ENG_06_a_server_that_is_not_ready_five_times_or_breaks_off_half_way_is_asked_again():
    whole = info(SIX_MB)
    assert len(whole.body) > 5_000_000
    half = Said(200, whole.body, whole.headers, cut=len(whole.body) // 2)
    for before, times in ((Said(503, b"not yet"), 5), (half, 1)):
        with serving(lambda heard: whole) as server:
            server.answer = lambda heard: whole if len(server.heard) > times else before  # noqa: B023
            assert len(fetching(server, Patience()).tensors()) == 120_000
            assert len(server.heard) == times + 1


def test_ENG_09_receivers_spread_over_the_seeds_and_begin_in_slots():
    receivers = [f"replica-{replica}/{rank}" for replica in range(8) for rank in range(8)]
    answer = info({"w": (1, 2, 3)})
    with serving(lambda heard: answer) as one, serving(lambda heard: answer) as other:
        seeds = [one.place, other.place]
        with Client(ControlPlane(one.place, one.place)) as client, ThreadPoolExecutor(16) as pool:

            def fetch(receiver: str) -> int:
                time.sleep(start_slot(receiver, slots=8, seconds=0.4))
                return len(client.fetch_weights(0, sources=order_of(seeds, receiver)).tensors())

            assert sum(pool.map(fetch, receivers)) == 64
        assert len(one.heard) + len(other.heard) == 64
        assert 16 <= len(one.heard) <= 48
        # The limit is visible: a process pulls at most four at once.
        assert one.most_at_once <= 4 and other.most_at_once <= 4
    assert len({start_slot(receiver, slots=8, seconds=0.4) for receiver in receivers}) == 8
