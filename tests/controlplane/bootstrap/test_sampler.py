"""Samples are what grew since the last one that was kept, by the clock, and stop where another process leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from controlplane.bootstrap.sampler import Sampler
from controlplane.bootstrap.tally import Tally
from controlplane.domain.contact import Contact
from controlplane.domain.rooms import Rooms
from controlplane.ledger.failures import FencedOut, OutcomeUnknown
from controlplane.ledger.tables import SAMPLE
from controlplane.probes.timing import Timing, percentile

EVERY = 0.05


class Recorder:
    """Keeps samples in a list; answers with the problems it was given first."""

    def __init__(self, *problems: Exception | None) -> None:
        self.bound = 0
        self.collisions = 0
        self.kept: list[dict[str, float]] = []
        self.asked = 0
        self._problems: Iterator[Exception | None] = iter(problems)

    async def keep_sample(self, sample: tuple[object, ...]) -> None:
        self.asked += 1
        if problem := next(self._problems, None):
            raise problem
        self.kept.append(dict(zip(SAMPLE.columns, sample, strict=True)))  # type: ignore[arg-type]


class Scene:
    def __init__(self, *problems: Exception | None) -> None:
        self.tally, self.rooms, self.timing = Tally(), Rooms(limit=100), Timing()
        self.recorder = Recorder(*problems)
        self.sampler = Sampler(self.tally, self.recorder, self.rooms, self.timing, every=EVERY)  # type: ignore[arg-type]

    async def until(self, count: int) -> None:
        """Sample until so many were tried."""
        running = asyncio.create_task(self.sampler.run())
        async with asyncio.timeout(30):
            while self.recorder.asked < count and not running.done():
                await asyncio.sleep(0.005)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_sample_has_what_grew_and_what_there_is():
    scene = Scene()
    scene.tally.lookups, scene.tally.registrations, scene.tally.refusals = 70, 4, 1
    scene.recorder.bound, scene.recorder.collisions = 30, 2
    scene.rooms.bind(1, 7, 0, 2_000, 1_000)
    for milliseconds in range(1, 101):
        scene.timing.heard(Contact.UP, milliseconds / 1000)
    scene.timing.heard(Contact.REFUSED, 0.0)
    await scene.until(1)
    first = scene.recorder.kept[0]
    assert {name: first[name] for name in list(SAMPLE.columns)[2:]} == {
        "registrations": 4,
        "lookups": 70,
        "bindings": 30,
        "collisions": 2,
        "refusals": 1,
        "rooms": 1,
        "probes": 101,
        "unanswered": 1,
        "probe_p50_ms": 50.0,
        "probe_p99_ms": 99.0,
    }
    scene.tally.lookups += 5
    await scene.until(scene.recorder.asked + 1)
    second = scene.recorder.kept[1]
    assert (second["lookups"], second["bindings"], second["rooms"]) == (5, 0, 1)
    assert (second["probes"], second["probe_p50_ms"], second["probe_p99_ms"]) == (0, None, None)


async def test_samples_follow_each_other_without_a_gap():
    scene = Scene()
    await scene.until(5)
    first, *others = scene.recorder.kept
    assert sum(sample["seconds"] for sample in others) == pytest.approx(others[-1]["at"] - first["at"], abs=0.02)
    assert min(sample["seconds"] for sample in others) > EVERY / 100


async def test_what_could_not_be_stored_is_in_the_next_one_and_nothing_is_counted_twice():
    scene = Scene(RuntimeError("the disk is full"))
    scene.tally.lookups = 10
    await scene.until(2)
    assert scene.recorder.kept[0]["lookups"] == 10 and scene.recorder.kept[0]["seconds"] > EVERY
    unsure = Scene(OutcomeUnknown())
    unsure.tally.lookups = 10
    await unsure.until(2)
    assert unsure.recorder.kept[0]["lookups"] == 0


async def test_where_another_process_leads_there_are_no_more():
    scene = Scene(FencedOut())
    async with asyncio.timeout(30):
        await scene.sampler.run()
    assert (scene.recorder.asked, scene.recorder.kept) == (1, [])


def test_probes_that_no_rank_answered_have_no_latency():
    timing = Timing()
    for contact in Contact:
        timing.heard(contact, 0.25)
    assert (timing.asked, timing.unanswered, timing.empty()) == (len(Contact), len(Contact) - 1, [0.25])
    assert timing.empty() == []


@pytest.mark.parametrize("count", [1, 2, 99, 100, 4096])
def test_a_percentile_is_one_of_the_numbers(count):
    numbers = [float(n) for n in range(1, count + 1)]
    assert percentile(numbers, 0.99) in numbers and percentile(numbers, 0.5) in numbers
    assert percentile(numbers, 1.0) == count
