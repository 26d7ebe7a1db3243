"""Leases of workers: late once, back once, gone with what they held; and never for what we did not hear ourselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controlplane.bootstrap.fleet import Fleet, Instance
from controlplane.bootstrap.heartbeats import Beat
from controlplane.bootstrap.lateness import HELD_UP_SECONDS, MOST_AT_ONCE, Expire, Lateness, read_slots, stored
from controlplane.bootstrap.leases import MAX_WORKERS
from controlplane.bootstrap.recorder import NOT_STORED, Operation, Staged
from controlplane.domain.directory import Directory, Registration
from controlplane.domain.errors import Refused
from controlplane.domain.registration import register
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.domain.worker_leases import FORGOTTEN_SECONDS, WorkerLease
from controlplane.ledger.writes import Writes
from controlplane.protocol.heartbeat import Heartbeat

FIRST, SECOND = Slot(0, 0, 0, 0), Slot(0, 0, 1, 0)
SIZES = Topology(1, 1, 2, 1)


class Clocks:
    """One time for both clocks, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Recorder:
    """Decides as the real one does and keeps what would be written; a batch at a time, or not at all while `away`."""

    def __init__(self, fleet: Fleet, clock: Clocks) -> None:
        self.fleet, self.clock = fleet, clock
        self.events: list[tuple[str, str]] = []
        self.rows: dict[str, tuple[Any, ...] | None] = {}
        self.away = False
        self.asked = 0

    def submit(self, operation: Operation) -> asyncio.Future[None]:
        self.asked += 1
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        instance = operation.instance
        staged, writes = Staged(instance, instance.directory, instance.engines), Writes(1)
        operation.decide(staged, writes, self.clock.now)
        if self.away:
            operation.reply = NOT_STORED
            return done
        self.fleet.leases.publish(staged.leases)
        self.events += [(event[1], event[2]) for event in writes.events]
        self.rows |= writes.leases
        self.rows |= {values[0]: None for sql, values in writes.ordered if sql.startswith("DELETE")}
        return done


class Scene:
    def __init__(self) -> None:
        self.clock = Clocks()
        self.fleet = Fleet(room_limit=1)
        self.fleet.leases._clock = self.clock
        self.recorder = Recorder(self.fleet, self.clock)
        self.lateness = Lateness(self.fleet, self.recorder, wall=self.clock, clock=self.clock)  # type: ignore[arg-type]
        self.a = self.instance("a", 1)

    def instance(self, name: str, number: int, token: str | None = "t") -> Instance:
        made = Instance(number, name, directory=Directory(name))
        for place, slot in enumerate((FIRST, SECOND)):
            put = Registration(slot, SIZES, SharedFacts(64, "auto"), "10.0.0.1", 4000 + place, None, token)
            made.directory = register(made.directory, put, self.clock.now).directory
        self.fleet.add(made)
        return made

    def beat(
        self, worker: str = "w", *, at: Instance | None = None, slot: Slot = FIRST, token: str | None = "t"
    ) -> None:
        self.recorder.submit(Beat(at or self.a, Heartbeat(worker, (slot,), token, 10.0), self.fleet))

    def wait(self, seconds: float) -> None:
        """As the process lives it: it looks every second."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now = min(self.clock.now + 1.0, until)
            self.lateness.look()

    @property
    def told(self) -> list[str]:
        return [kind for kind, _ in self.recorder.events]


def run(test: Any) -> Any:
    """A test inside a loop, with a scene."""

    def wrapped() -> None:
        async def inside() -> None:
            test(Scene())

        asyncio.run(inside())

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


@run
def test_a_worker_is_late_when_its_lease_is_over_once_and_back_when_it_is_heard_from(scene: Scene):
    scene.beat()
    scene.wait(9)
    scene.beat()
    scene.wait(9)
    assert scene.told == []
    scene.wait(60)
    assert scene.told == ["worker.late"]
    assert scene.recorder.rows["w"] is not None and scene.recorder.rows["w"][-1] is not None
    scene.beat()
    assert scene.told == ["worker.late", "worker.back"] and scene.recorder.rows["w"][-1] is None
    scene.beat()
    scene.wait(9)
    assert scene.told == ["worker.late", "worker.back"]


@run
def test_after_a_restart_of_ours_everybody_has_one_lease_more(scene: Scene):
    long_ago = WorkerLease("w", 1, "t", (FIRST,), scene.clock.now - 500, 10.0)
    scene.fleet.leases.load([long_ago])
    scene.wait(9)
    assert scene.told == []
    scene.wait(2)
    assert scene.told == ["worker.late"]
    # Who was late before stays so, and is told of no second time.
    scene.fleet.leases.load([WorkerLease("v", 1, "t", (FIRST,), 0.0, 10.0, late_since=5.0)])
    scene.wait(30)
    assert scene.told == ["worker.late"]
    scene.beat("v")
    assert scene.told == ["worker.late", "worker.back"]


@run
def test_when_we_were_held_up_ourselves_nobody_is_late_for_it(scene: Scene):
    scene.beat()
    scene.wait(5)
    scene.clock.now += HELD_UP_SECONDS + 60
    scene.wait(9)
    assert scene.told == []
    scene.wait(3)
    assert scene.told == ["worker.late"]


@run
def test_what_was_heard_while_the_database_was_away_counts_and_what_could_not_be_told_is_told_later(scene: Scene):
    scene.beat()
    scene.wait(8)
    scene.recorder.away = True
    scene.beat()
    scene.wait(8)
    assert scene.told == []
    scene.wait(8)
    scene.recorder.away = False
    scene.wait(1)
    assert scene.told == ["worker.late"]


@run
def test_with_its_launch_a_worker_is_gone_and_nobody_is_told_of_one_that_was_not_late(scene: Scene):
    scene.beat("on-time")
    scene.beat("late", slot=SECOND)
    scene.wait(5)
    scene.beat("on-time")
    scene.wait(7)
    assert scene.told == ["worker.late"]
    scene.a.directory = Directory("a")
    scene.wait(20)
    assert scene.told == ["worker.late", "worker.gone"]
    assert scene.recorder.rows == {"late": None, "on-time": None} and len(scene.fleet.leases) == 0


@run
def test_another_launch_in_its_slot_is_not_its_own(scene: Scene):
    scene.beat(token="an older launch")
    scene.wait(20)
    assert scene.told == [] and scene.recorder.rows == {"w": None}


@run
def test_of_a_retired_instance_nobody_is_waited_for(scene: Scene):
    scene.beat()
    scene.wait(12)
    scene.a.intent = "retired"
    scene.wait(1)
    assert scene.told == ["worker.late", "worker.gone"] and scene.recorder.rows == {"w": None}


@run
def test_late_for_a_day_is_gone_whoever_holds_its_slot(scene: Scene):
    scene.beat()
    scene.wait(12)
    scene.clock.now += FORGOTTEN_SECONDS
    # The first look finds that we were held up.
    scene.wait(12)
    assert scene.told == ["worker.late", "worker.gone"]


@run
def test_a_worker_that_moves_is_back_where_it_was_late(scene: Scene):
    b = scene.instance("b", 2)
    scene.beat()
    scene.wait(12)
    scene.beat(at=b)
    assert scene.recorder.events == [("worker.late", "a"), ("worker.back", "a")]
    scene.wait(12)
    assert scene.recorder.events[2:] == [("worker.late", "b")]


@run
def test_what_a_worker_says_elsewhere_in_the_same_batch_is_not_lost_to_the_end_of_its_lease(scene: Scene):
    b = scene.instance("b", 2)
    scene.beat()
    scene.clock.now += 11.0
    (over,) = scene.fleet.leases.over()
    writes = Writes(1)
    beat = Beat(b, Heartbeat("w", (FIRST,), "t", 10.0), scene.fleet)
    beat.decide(Staged(b, b.directory, b.engines), writes, scene.clock.now)
    Expire(scene.a, over, scene.fleet.leases).decide(
        Staged(scene.a, scene.a.directory, scene.a.engines), writes, scene.clock.now
    )
    assert writes.leases["w"][1] == b.id and not writes.events and not writes.ordered


@run
def test_many_that_are_late_at_once_are_told_a_bounded_number_at_a_time(scene: Scene):
    many = MOST_AT_ONCE + 10
    scene.fleet.leases.load(WorkerLease(f"w{n}", 1, "t", (FIRST,), 0.0, 10.0) for n in range(many))
    scene.lateness.look()
    scene.clock.now += 2.0
    scene.lateness.look()
    scene.wait(8)
    assert scene.recorder.asked == MOST_AT_ONCE
    scene.wait(1)
    assert scene.told == ["worker.late"] * many
    scene.wait(5)
    assert scene.recorder.asked == many


@run
def test_names_of_workers_cannot_fill_the_memory(scene: Scene):
    scene.fleet.leases.load(WorkerLease(f"w{n}", 1, "t", (FIRST,), 0.0, 600.0) for n in range(MAX_WORKERS))
    with pytest.raises(Refused, match="give a worker a name that it keeps"):
        scene.beat("one more")
    scene.beat("w7")


@run
def test_names_that_could_not_be_stored_are_not_remembered(scene: Scene):
    scene.recorder.away = True
    for number in range(20):
        scene.beat(f"w{number}")
    assert len(scene.fleet.leases) == len(scene.fleet.leases._due) == 0
    scene.recorder.away = False
    scene.beat()
    scene.wait(9)
    assert scene.told == []
    scene.wait(2)
    assert scene.told == ["worker.late"]


def test_a_lease_is_stored_as_it_is_read():
    lease = WorkerLease("w", 1, None, (FIRST, SECOND), 1000.0, 10.0)
    worker, instance, token, slots, seen_at, expires_at, late_since = stored(lease)
    assert WorkerLease(worker, instance, token, read_slots(slots), seen_at, expires_at - seen_at, late_since) == lease  # type: ignore[arg-type,operator]
