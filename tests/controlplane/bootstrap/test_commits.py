"""How each way to fail is counted: once a transaction, and once an operation whose sender was told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import OperationalError

from controlplane.bootstrap.commits import Commits
from controlplane.bootstrap.room_recorder import RoomRecorder
from controlplane.domain.rooms import Rooms
from controlplane.ledger.failures import OutcomeUnknown
from controlplane.metrics.of_bootstrap import FAILURES
from tests.timelines.test_recorder import Bench, bench

__all__ = ["bench"]


async def stored(bench: Bench, *failures: Exception | None, operations: int = 1) -> Commits:
    """One batch of so many registrations; the store fails like this, first to last."""
    waiting = list(failures)
    bench.store.refuse = lambda writes: waiting.pop(0) if waiting else None
    instance = bench.instance(1)
    async with asyncio.timeout(60):
        await asyncio.gather(*(bench.register(instance, number)[1] for number in range(operations)))
    return bench.recorder.commits


async def test_a_batch_that_is_stored_is_one_transaction_of_so_many_operations(bench: Bench):
    commits = await stored(bench, operations=3)
    assert (commits.took.count, commits.sizes.count, commits.sizes.total) == (1, 1, 3)
    assert commits.failures == dict.fromkeys(FAILURES, 0) and commits.not_stored == 0


async def test_a_database_that_is_away_is_nobodys_poison(bench: Bench):
    commits = await stored(bench, OperationalError("locked"), operations=3)
    assert commits.failures == {"away": 1, "unknown": 0, "broken": 0}
    assert (commits.not_stored, commits.took.count) == (3, 0)


async def test_of_a_batch_with_something_broken_in_it_only_that_is_not_stored(bench: Bench):
    commits = await stored(bench, ValueError("batch"), None, ValueError("the second"), operations=3)
    assert commits.failures == {"away": 0, "unknown": 0, "broken": 2}
    assert (commits.not_stored, commits.took.count, commits.sizes.total) == (1, 2, 2)


async def test_a_commit_whose_outcome_is_unknown_is_counted_and_tried_again(bench: Bench):
    commits = await stored(bench, OutcomeUnknown(), operations=2)
    assert commits.failures == {"away": 0, "unknown": 1, "broken": 0}
    assert (commits.not_stored, commits.sizes.total, bench.reloads) == (0, 2, 1)


class Journal:
    """Fails as it is told, first to last."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)

    def append(self, *_: Any) -> None:
        if self._failures:
            raise self._failures.pop(0)


@pytest.mark.parametrize(
    ("failure", "why", "rejected"),
    [(OperationalError("locked"), "away", 2), (ValueError("odd"), "broken", 2)],
)
async def test_rooms_that_could_not_be_stored_are_counted_as_rejected(failure, why, rejected):
    recorder = RoomRecorder(Journal(failure), Rooms(limit=10), ttl_seconds=60, fenced_out=lambda: None)  # type: ignore[arg-type]
    running = asyncio.create_task(recorder.run())
    async with asyncio.timeout(60):
        assert await asyncio.gather(*(recorder.bind(1, room, 0) for room in range(rejected))) == [False] * rejected
        assert await recorder.bind(1, 7, 0)
    running.cancel()
    recorder.close()
    assert recorder.commits.failures == {**dict.fromkeys(FAILURES, 0), why: 1}
    assert (recorder.commits.not_stored, recorder.commits.sizes.total, recorder.bound) == (rejected, 1, 1)
