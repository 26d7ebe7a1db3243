"""What the watch makes of answers: what counts, what is asked once more, and what nobody need hear of."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from controlplane.bootstrap.fleet import Fleet, Instance
from controlplane.bootstrap.recorder import Staged
from controlplane.bootstrap.sweeping import NEVER, Turns
from controlplane.bootstrap.watch import Watch
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Registration
from controlplane.domain.engines import EngineEntry, EngineTable
from controlplane.domain.launch import CONFIRM_AFTER, Address
from controlplane.domain.registration import register
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.writes import Writes
from controlplane.probes import mooncake
from controlplane.probes.networks import ProbePolicy
from controlplane.probes.pacing import at_a_time
from controlplane.probes.sweep import Target

PATIENCE = 20.0
"""For what comes at once, on a machine that may have other work to do."""

HOST = "10.0.0.1"


class Peers:
    """A prober of peers that say what a test has told them; whoever it said nothing of answers."""

    def __init__(self) -> None:
        self.policy = ProbePolicy()
        self.timeout = 1.0
        self.says: dict[Address, list[Contact]] = {}
        self.all_say: Contact | None = None
        self.asked: list[tuple[Address, float]] = []

    async def probe(self, target: Target) -> Contact:
        address = (target.host, target.port)
        self.asked.append((address, time.monotonic()))
        said = self.says.get(address, [Contact.UP])
        answer = self.all_say or (said.pop(0) if len(said) > 1 else said[0])
        await asyncio.sleep(0.001)
        return answer

    async def close(self) -> None:
        pass

    def times(self, address: Address) -> list[float]:
        return [at for asked, at in self.asked if asked == address]


class Recorder:
    """Decides and publishes as the real one does, and keeps what would be written."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.submitted = 0
        self.wanted: Callable[[Staged], None] = lambda staged: None

    def submit(self, operation: Any) -> None:
        self.submitted += 1
        instance = operation.instance
        staged, writes = Staged(instance, instance.directory, instance.engines), Writes(1)
        operation.decide(staged, writes, time.time())
        instance.publish(staged.directory, staged.engines)
        self.happened += [event[1] for event in writes.events]
        self.wanted(staged)


class Scene:
    """A fleet of instances that are whole and proven, and a watch that sweeps it."""

    def __init__(self, *, interval: float) -> None:
        self.fleet, self.peers, self.recorder = Fleet(room_limit=10), Peers(), Recorder()
        self.watch = Watch(self.fleet, self.recorder, self.peers, interval=interval)  # type: ignore[arg-type]
        self.recorder.wanted = self.watch.wanted

    def add(self, number: int, ranks: int, *, host: str = HOST) -> Instance:
        instance = Instance(number, f"i{number}")
        self.fleet.add(instance)
        for tp in range(ranks):
            put = Registration(
                Slot(0, 0, tp, 0), Topology(1, 1, ranks, 1), SharedFacts(64, "auto"), host, number * 1000 + tp
            )
            instance.directory = register(instance.directory, put, time.time()).directory
        return instance

    @property
    def whole(self) -> bool:
        return all(i.directory.serving is not None for i in self.fleet.by_id.values())

    def contacts(self, instance: Instance) -> list[Contact]:
        current = instance.directory.current
        return [row.contact for row in current.rows.values()] if current else []


@asynccontextmanager
async def watching(*sizes: int, interval: float = 0.1, host: str = HOST) -> AsyncIterator[Scene]:
    scene = Scene(interval=interval)
    for number, ranks in enumerate(sizes, start=1):
        scene.add(number, ranks, host=host)
    tasks = [asyncio.create_task(work) for work in (scene.watch.report_forever(), scene.watch.sweep_forever())]
    try:
        await until(lambda: scene.whole)
        yield scene
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await scene.watch.close()


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.005)


async def more_sweeps(scene: Scene, count: int = 3) -> None:
    first = scene.watch.sweeps
    await until(lambda: scene.watch.sweeps >= first + count)


async def test_one_time_out_of_a_rank_that_answers_is_asked_again_and_said_to_nobody():
    async with watching(2) as scene:
        for miss in (Contact.SILENT, Contact.UNREACHED, Contact.STRANGER):
            scene.recorder.happened.clear()
            address, asked = (HOST, 1001), len(scene.peers.times((HOST, 1001)))
            scene.peers.says[address] = [miss, Contact.UP]
            await until(lambda asked=asked, address=address: len(scene.peers.times(address)) >= asked + 3)
            missed, again = scene.peers.times(address)[asked : asked + 2]
            assert again - missed >= CONFIRM_AFTER, "asked again too soon to be another witness"
            assert scene.recorder.happened == []


async def test_a_miss_that_comes_twice_is_shown_and_costs_the_rank_nothing_else():
    async with watching(2) as scene:
        instance = scene.fleet.by_id[1]
        scene.recorder.happened.clear()
        scene.peers.says[HOST, 1001] = [Contact.SILENT]
        await until(lambda: Contact.SILENT in scene.contacts(instance))
        await more_sweeps(scene)
        assert scene.recorder.happened == ["rank.probed"]
        assert instance.directory.serving is not None


async def test_two_refusals_in_a_third_of_a_second_are_a_death():
    async with watching(3) as scene:
        instance = scene.fleet.by_id[1]
        asked = len(scene.peers.times((HOST, 1001)))
        scene.peers.says[HOST, 1001] = [Contact.REFUSED]
        await until(lambda: "rank.left" in scene.recorder.happened)
        refused = scene.peers.times((HOST, 1001))[asked:]
        assert refused[-1] - refused[0] >= CONFIRM_AFTER
        assert instance.directory.serving is None and instance.directory.debt is not None


async def test_what_only_repeats_what_is_known_is_work_for_nobody():
    async with watching(4, 4) as scene:
        await more_sweeps(scene)
        submitted, asked = scene.recorder.submitted, len(scene.peers.asked)
        await more_sweeps(scene)
        assert len(scene.peers.asked) >= asked + 16
        assert scene.recorder.submitted == submitted


@pytest.mark.parametrize("host", [HOST, "rank-7.example"], ids=["asked too much", "no name server answers"])
async def test_that_it_could_not_be_asked_says_nothing_of_a_rank_that_answers(host):
    async with watching(2, host=host) as scene:
        scene.peers.all_say = Contact.UNPROBED
        asked = len(scene.peers.times((host, 1000)))
        # Three tries for each answer that could not be had.
        await until(lambda: len(scene.peers.times((host, 1000))) >= asked + 4)
        assert set(scene.contacts(scene.fleet.by_id[1])) == {Contact.UP}


async def test_of_a_new_rank_that_nobody_had_a_right_to_ask_it_is_said_that_it_was_not_reached():
    scene = Scene(interval=0.1)
    scene.peers.all_say = Contact.UNPROBED
    instance = scene.add(1, 1)
    reporting, sweeping = (
        asyncio.create_task(work) for work in (scene.watch.report_forever(), scene.watch.sweep_forever())
    )
    await until(lambda: scene.whole)
    assert scene.contacts(instance) == [Contact.UNREACHED]
    for task in (reporting, sweeping):
        task.cancel()
    await scene.watch.close()


async def test_when_all_of_a_large_fleet_stops_at_once_nobody_is_called_dead_though_a_round_takes_long():
    async with watching(*[40] * 8, interval=1.0) as scene:
        await more_sweeps(scene, 1)
        scene.peers.all_say = Contact.REFUSED
        await until(lambda: scene.watch.paused)
        await more_sweeps(scene, 2)
        assert "rank.left" not in scene.recorder.happened
        assert scene.whole
        scene.peers.all_say = None
        await until(lambda: not scene.watch.paused)
        assert scene.whole


async def test_of_a_large_fleet_in_which_one_instance_dies_whole_just_that_one_is_dead():
    async with watching(*[40] * 8, interval=1.0) as scene:
        await more_sweeps(scene, 1)
        for tp in range(40):
            scene.peers.says[HOST, 3000 + tp] = [Contact.REFUSED]
        await until(lambda: scene.fleet.by_id[3].directory.current is None)
        assert not scene.watch.paused
        assert scene.recorder.happened.count("rank.left") == 40
        assert all(i.directory.serving for i in scene.fleet.by_id.values() if i.id != 3)


async def test_a_round_is_spread_over_its_time():
    async with watching(*[40] * 5, interval=1.0) as scene:
        await more_sweeps(scene, 1)
        asked = len(scene.peers.asked)
        await until(lambda: len(scene.peers.asked) >= asked + 200)
        times = [at for _, at in scene.peers.asked[asked : asked + 200]]
        # A slow machine can only stretch it further.
        assert times[-1] - times[0] > 0.7
        assert max(times.count(at) for at in times) <= 2 * at_a_time(200, 1.0)


async def test_an_empty_fleet_is_swept_too_and_whoever_comes_is_asked():
    async with watching() as scene:
        await more_sweeps(scene)
        scene.add(1, 2)
        await until(lambda: scene.whole)
        assert scene.contacts(scene.fleet.by_id[1]) == [Contact.UP] * 2


async def test_a_rank_that_has_just_come_waits_no_longer_than_the_others():
    async with watching(*[40] * 5, interval=0.5) as scene:
        newcomer = scene.add(9, 1)
        address = (HOST, 9000)
        scene.watch.ask(newcomer, address)
        await until(lambda: len(scene.peers.times(address)) >= 5)
        for others in ((HOST, 1000), (HOST, 5039), address):
            gaps = [later - earlier for earlier, later in pairwise(scene.peers.times(others))]
            assert median(gaps) > 0.3, "it would be asked more often than it need be"
        counts = [len(scene.peers.times((HOST, 1000 * number))) for number in (1, 5, 9)]
        assert max(counts) - min(counts) <= 4, counts


def test_whoever_was_not_asked_for_longest_is_next_and_whoever_is_gone_is_not():
    turns = Turns()
    one, two, three = ((1, (HOST, port)) for port in (1, 2, 3))
    turns.keep({one, two})
    assert set(turns.due(NEVER, 9)) == {one, two}
    for at, whom in enumerate((two, one, two)):
        turns.asked(whom, float(at))
    assert turns.due(1.0, 9) == [one] and turns.due(2.0, 9) == [one, two] and turns.due(2.0, 1) == [one]
    turns.keep({two, three})
    assert turns.due(2.0, 9) == [three, two]


async def test_sessions_that_hang_are_asked_a_bounded_number_at_once_and_all_of_them_are_heard(monkeypatch):
    under_way, most = 0, 0

    async def hangs(host: str, port: int) -> Contact:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return Contact.SILENT

    monkeypatch.setattr(mooncake, "probe", hangs)
    async with watching(1, interval=3600.0) as scene:
        one = scene.fleet.by_id[1]
        live = {
            rank: EngineEntry(rank, f"{HOST}:{20_000 + rank}", "d", 1, 1, time.time(), False, probeable=True)
            for rank in range(600)
        }
        one.publish(one.directory, EngineTable(live, {}, {}))
        for session in one.engines.sessions():
            scene.watch.ask_session(one, session)
        await until(lambda: all(entry.contact is Contact.SILENT for entry in one.engines.live.values()))
    assert 1 < most <= 256
