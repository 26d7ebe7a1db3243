"""A seed's process is killed midway: the next seed goes on, or a sentence says what is missing; an old session serves nobody."""

import time

import psutil
import pytest

from tests.support.machine import slowness
from tests.workers.weights.processes import Seeding
from tests.workers.weights.seeding import same, sample
from workers.weights import NoSeed

MODEL = {"layers": 6, "hidden": 512}
MOONCAKE = pytest.mark.parametrize("here", ["mooncake"], indirect=True)
STEP = 200_000


@pytest.fixture(scope="module")
def survivor(directory, tmp_path_factory):
    seed = Seeding(directory, tmp_path_factory.mktemp("survivor") / "log", "survivor", "--number", "7")
    yield seed
    seed.kill()


@pytest.fixture
def victim(directory, survivor, name, tmp_path):
    seed = Seeding(directory, tmp_path / "log", name, "--number", "7").ready()
    yield seed
    seed.kill()


def pulling(here, copy, seeds, share, then):
    """A pull that calls `then` once, as soon as `share` of the bytes came."""
    done = []

    def look(progress):
        if progress.done >= share * progress.total and not done:
            done.append(progress.done)
            then()

    pull = here.pull(copy, seeds, on_progress=look, step_bytes=STEP)
    pull._sources.order = list(seeds)
    return pull


@MOONCAKE
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_when_a_seed_is_killed_another_one_gives_the_rest_and_nothing_twice(here, survivor, victim, share):
    survivor.ready()
    copy = sample(**MODEL)
    began = time.monotonic()
    pull = pulling(here, copy, [victim.instance, survivor.instance], share, victim.kill)
    loaded = pull.run(within=100)
    took = time.monotonic() - began
    assert same(copy, sample(number=7, **MODEL))
    assert loaded.seeds == (victim.instance, survivor.instance) and loaded.verified
    # What was not whole when it died, at most a matrix, comes again.
    assert loaded.bytes <= pull._holding.bytes + len(loaded.troubles) * (STEP + 512 * 512 * 2)
    assert loaded.troubles[0].startswith(f"{victim.instance}: ")
    assert took / slowness() < 25


@MOONCAKE
def test_without_another_seed_a_sentence_says_what_is_missing_and_the_next_start_of_it_goes_on(here, victim):
    copy, old = sample(**MODEL), []

    def die():
        old.append(here.client(victim.instance).fetch_weights(0).session_id)
        victim.kill()

    pull = pulling(here, copy, [victim.instance], 0.6, die)
    with pytest.raises(NoSeed) as caught:
        pull.run(within=5 * slowness())
    sentence = caught.value.sentence
    assert f"MB of 3.15 MB, and no seed gives the rest. {victim.instance}: " in sentence
    assert sentence.endswith("Start a seed, or name another; run it again to go on from here")
    came = pull._came
    victim.start()
    # It is asked while it starts: first its old session is published still, then nobody's, then the new one.
    loaded = pull.run(within=100)
    assert same(copy, sample(number=7, **MODEL))
    assert loaded.session != old[0] and loaded.chain[0].session == loaded.session
    assert 0 < loaded.bytes < pull._holding.bytes - came + 512 * 512 * 2 + STEP


@MOONCAKE
def test_a_seed_that_is_frozen_costs_its_time_and_no_more(here, survivor, victim):
    survivor.ready()
    own = psutil.Process(victim.child.pid)
    frozen = [own, *own.children(recursive=True)]

    def freeze():
        for process in frozen:
            process.suspend()

    copy = sample(**MODEL)
    began = time.monotonic()
    loaded = pulling(here, copy, [victim.instance, survivor.instance], 0.5, freeze).run(within=100)
    took = time.monotonic() - began
    for process in frozen:
        process.resume()
    assert same(copy, sample(number=7, **MODEL)) and loaded.verified
    assert loaded.seeds[-1] == survivor.instance
    assert took / slowness() < 25
