"""Timelines of the recorder: a database that stalls, one that fails. The store is a small one of our own; the rest is real."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from controlplane.bootstrap.fleet import Instance
from controlplane.bootstrap.operations import Register
from controlplane.bootstrap.recorder import Recorder
from controlplane.domain.directory import Directory, Registration
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.failures import FencedOut, OutcomeUnknown
from controlplane.ledger.writes import Writes

STALL_SECONDS = 0.6
FACTS = SharedFacts(64, "auto")


class Store:
    """Keeps batches in order. It stalls while `open` is not set, and fails when `refuse` says so."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.refuse: Callable[[Writes], Exception | None] = lambda writes: None
        self.began = 0
        self.stored: list[Writes] = []
        self.revision = 0

    def commit(self, token: int, writes: Writes) -> int:
        self.began += 1
        assert self.open.wait(60)
        failure = self.refuse(writes)
        if failure is not None:
            raise failure
        self.stored.append(writes)
        self.revision += len(writes.events)
        return self.revision

    @property
    def addresses(self) -> list[str]:
        return [row[6] for writes in self.stored for row in writes.ranks.values()]


class Bench:
    """A recorder at work on one store."""

    def __init__(self) -> None:
        self.store = Store()
        self.reloads = 0
        self.fenced = asyncio.Event()
        self.published: list[str] = []
        self.recorder = Recorder(
            self.store,  # type: ignore[arg-type]
            published=lambda staged: self.published.extend(stage.instance.name for stage in staged),
            reload=self._reload,
            fenced_out=self.fenced.set,
        )
        self.running = asyncio.create_task(self.recorder.run())

    def _reload(self) -> None:
        self.reloads += 1

    def instance(self, number: int) -> Instance:
        name = f"i{number}"
        return Instance(number, name, directory=Directory(name))

    def register(self, instance: Instance, rank: int, ip: str = "10.0.0.1") -> tuple[Register, asyncio.Future[None]]:
        put = Registration(Slot(0, 0, rank, 0), Topology(1, 1, 4, 1), FACTS, ip, 100 + rank)
        operation = Register(instance, put, ip, lambda refused: None)
        return operation, self.recorder.submit(operation)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.store.open.set()
    bench.running.cancel()
    bench.recorder.close()


async def begun(bench: Bench, commits: int) -> None:
    """Until the store was asked for so many commits: what comes from now on is of the next one."""
    async with asyncio.timeout(20):
        while bench.store.began < commits:
            await asyncio.sleep(0.005)


def rows(instance: Instance) -> set[int]:
    return {slot.tp for launch in instance.directory.launches() for slot in launch.rows}


async def test_10_an_identical_second_put_waits_for_the_first_to_be_durable(bench: Bench):
    instance = bench.instance(1)
    bench.store.open.clear()
    first, first_done = bench.register(instance, 0)
    await begun(bench, 1)
    # The client gave up waiting and tries again, on a new connection.
    second, second_done = bench.register(instance, 0)
    await asyncio.sleep(STALL_SECONDS)
    assert not first_done.done()
    assert not second_done.done()
    assert rows(instance) == set()
    bench.store.open.set()
    await first_done
    assert first.reply.status == 200
    assert len(bench.store.stored) >= 1
    await second_done
    assert second.reply.status == 200
    assert rows(instance) == {0}
    kinds = [event[1] for writes in bench.store.stored for event in writes.events]
    assert kinds == ["launch.opened", "rank.registered"]


async def test_10b_everything_that_came_during_the_stall_goes_into_one_transaction(bench: Bench):
    instance = bench.instance(1)
    bench.store.open.clear()
    _, first = bench.register(instance, 0)
    await begun(bench, 1)
    waiting = [bench.register(instance, rank)[1] for rank in (1, 2, 3)]
    bench.store.open.set()
    await asyncio.gather(first, *waiting)
    assert [len(writes.ranks) for writes in bench.store.stored] == [1, 3]


async def test_11_nobody_reads_what_was_not_committed(bench: Bench):
    instance = bench.instance(1)
    operation, done = bench.register(instance, 0)
    await done
    assert rows(instance) == {0}
    bench.store.refuse = lambda writes: RuntimeError("disk full")
    published = len(bench.published)
    bench.store.open.clear()
    operation, done = bench.register(instance, 1)
    await begun(bench, 2)
    assert rows(instance) == {0}
    bench.store.open.set()
    await done
    assert operation.reply.status == 503
    assert rows(instance) == {0}
    assert len(bench.published) == published
    # And the same PUT succeeds when the database does again.
    bench.store.refuse = lambda writes: None
    operation, done = bench.register(instance, 1)
    await done
    assert operation.reply.status == 200
    assert rows(instance) == {0, 1}


async def test_11b_a_poisoned_row_fails_alone(bench: Bench):
    def poisoned(writes: Writes) -> Exception | None:
        return ValueError("invalid byte sequence") if any(row[6] == "poison" for row in writes.ranks.values()) else None

    bench.store.refuse = poisoned
    one, other = bench.instance(1), bench.instance(2)
    bench.store.open.clear()
    _, first = bench.register(one, 0)
    await begun(bench, 1)
    before, _ = bench.register(one, 1)
    bad, _ = bench.register(one, 2, ip="poison")
    after, _ = bench.register(one, 3)
    neighbour, done = bench.register(other, 0)
    bench.store.open.set()
    await first
    await done
    assert [op.reply.status for op in (before, bad, after, neighbour)] == [200, 503, 200, 200]
    assert (rows(one), rows(other)) == ({0, 1, 3}, {0})
    assert "poison" not in bench.store.addresses


async def test_11c_a_commit_of_unknown_outcome_reloads_and_is_tried_one_by_one(bench: Bench):
    instance = bench.instance(1)
    left = [OutcomeUnknown()]
    bench.store.refuse = lambda writes: left.pop() if left else None
    operation, done = bench.register(instance, 0)
    await done
    assert bench.reloads == 1
    assert operation.reply.status == 200
    assert rows(instance) == {0}


async def test_12b_a_fenced_out_recorder_answers_nobody(bench: Bench):
    instance = bench.instance(1)
    bench.store.refuse = lambda writes: FencedOut()
    _, done = bench.register(instance, 0)
    await asyncio.wait_for(bench.fenced.wait(), 20)
    with pytest.raises(asyncio.CancelledError):
        await done
    assert rows(instance) == set()
