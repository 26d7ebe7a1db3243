"""Who does not answer does not hold up those who do; and how long a round takes."""

import asyncio
import doctest
import time

import pytest

from controlplane.domain.contact import Contact
from controlplane.probes import pacing
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.pacing import TICK_SECONDS, at_a_time, round_seconds
from controlplane.probes.places import Places
from controlplane.probes.sweep import Prober, Target
from tests.controlplane.probes import peers

HERE = "127.0.0.1"
PATIENCE = 20.0


async def until(true) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


async def test_whoever_takes_long_gives_its_place_back_and_goes_on():
    places = Places(1, 2)
    taken = [await asyncio.wait_for(places.take(), PATIENCE) for _ in range(3)]
    # One quick place, two patient ones, and all of them are taken: the next has to wait.
    waiting = asyncio.create_task(places.take())
    await asyncio.sleep(0.3)
    assert not waiting.done()
    taken.pop().give_back()
    last = await asyncio.wait_for(waiting, PATIENCE)
    for place in (*taken, last):
        place.give_back()
    again = [await asyncio.wait_for(places.take(), PATIENCE) for _ in range(3)]
    for place in again:
        place.give_back()


async def test_a_rack_that_does_not_answer_does_not_hold_up_the_others():
    prober = Prober(ProbePolicy(), timeout=60.0, places=Places(2, 8))
    with peers.speechless() as silent, peers.pull() as up:
        # All of 127.0.0.0/8 is this host; who accepts and says nothing takes the whole time-out.
        cut_off = [asyncio.create_task(prober.probe(Target(HERE, silent, HERE)))]
        cut_off += [asyncio.create_task(prober.probe(Target(HERE, port, HERE))) for port in await _more(silent, 5)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(prober.probe(Target(HERE, up, HERE)), PATIENCE) is Contact.UP
        assert not any(asking.done() for asking in cut_off)
        await prober.close()
        await asyncio.gather(*cut_off, return_exceptions=True)


async def _more(first: int, count: int) -> list[int]:
    """Ports of servers that accept and say nothing, closed with the loop."""

    async def nothing(_reader, _writer) -> None:
        await asyncio.sleep(60)

    servers = [await asyncio.start_server(nothing, HERE, 0) for _ in range(count)]
    return [server.sockets[0].getsockname()[1] for server in servers]


@pytest.mark.parametrize("count", [0, 1, 8, 500, 501, 2_000, 10_000, 40_000])
def test_a_round_asks_everybody_within_its_time(count):
    seconds = round_seconds(count, 1.0)
    ticks = -(-count // at_a_time(count, seconds))
    assert ticks * TICK_SECONDS <= seconds + TICK_SECONDS


def test_rounds_of_500_take_a_second_and_of_10_000_less_than_8():
    assert [round_seconds(count, 1.0) for count in (0, 1, 499, 500)] == [1.0] * 4
    lengths = [round_seconds(count, 1.0) for count in range(500, 10_001, 500)]
    assert lengths == sorted(lengths) and lengths[-1] < 8
    # How hard the wire's process works for it grows with the fleet, and not without end.
    paces = [count / round_seconds(count, 1.0) for count in range(500, 40_000, 500)]
    assert max(paces) < 1_600
    assert doctest.testmod(pacing).failed == 0


def test_many_places_are_taken_and_given_back_in_no_time():
    async def take_all() -> float:
        places = Places(64, 64)
        began = time.process_time()
        for _ in range(5_000):
            (await places.take()).give_back()
        return time.process_time() - began

    assert asyncio.run(take_all()) < 1.0
