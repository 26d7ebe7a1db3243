"""An operator's request is carried out once and answered once, however its reading and its answer meet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.db import connections

from controlplane.bootstrap.fleet import Fleet, Instance, Observed
from controlplane.bootstrap.inbox import PENDING, Inbox
from controlplane.bootstrap.operations import ANSWER, Requested
from controlplane.domain.directory import Directory
from controlplane.models import Request


class Recorder:
    """Commits when it is told to, or fails."""

    def __init__(self) -> None:
        self.submitted: list[Requested] = []
        self.commits = asyncio.Event()
        self.problem: Exception | None = None

    async def submit(self, operation: Requested) -> None:
        self.submitted.append(operation)
        await self.commits.wait()
        if self.problem is not None:
            raise self.problem


class Table:
    """The requests, as a query finds them that began a moment ago."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.rows = list(rows)
        self.reading = asyncio.Event()
        self.read = asyncio.Event()
        self.read.set()

    async def __call__(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if sql != PENDING:
            return []
        found = list(self.rows)
        self.reading.set()
        await self.read.wait()
        return found


def row(number: int, kind: str = "evict") -> tuple[Any, ...]:
    return (number, kind, "p", "0.0.0.0", None, False, "ann", "", 100.0)


class Prober:
    async def probe_many(self, targets: Any) -> dict[Any, Any]:
        return {}


def inbox(table: Table) -> tuple[Inbox, Recorder]:
    fleet, recorder = Fleet(room_limit=10), Recorder()
    fleet.add(Instance(1, "p", directory=Directory("p")))

    async def nothing(*_: Any) -> Any:
        return True, ""

    parts: dict[str, Any] = {"changed": lambda: None, "tokens_changed": nothing, "observe": nothing, "revision": 0}
    made = Inbox(fleet, recorder, Prober(), **parts)  # type: ignore[arg-type]
    made._read = table  # type: ignore[method-assign]
    return made, recorder


async def test_a_reading_that_still_shows_a_request_which_was_answered_meanwhile_does_not_repeat_it():
    table = Table(row(1, "reregister"))
    made, recorder = inbox(table)
    made._fleet.by_name["p"].observed = Observed("http://e")
    await made._take_requests()
    await asyncio.sleep(0)
    assert [one.request for one in recorder.submitted] == [1], "it is worked on, beside the inbox"
    # A second reading began before the answer is in the table, and comes back after it.
    table.reading.clear()
    table.read.clear()
    again = asyncio.create_task(made._take_requests())
    await table.reading.wait()
    recorder.commits.set()
    await asyncio.gather(*made._polls)
    table.read.set()
    await again
    assert [one.request for one in recorder.submitted] == [1]
    made.close()


async def test_one_whose_answer_could_not_be_stored_is_taken_up_again():
    table = Table(row(1), row(2))
    made, recorder = inbox(table)
    recorder.commits.set()
    recorder.problem = RuntimeError("the disk is full")
    with pytest.raises(RuntimeError):
        await made._take_requests()
    recorder.problem = None
    await made._take_requests()
    assert [one.request for one in recorder.submitted] == [1, 1, 2]
    made.close()


def test_the_first_answer_stands(on_backend):
    asked = Request.objects.create(kind="evict", instance="p", actor="ann", reason="", made_at=100.0)
    with connections["default"].cursor() as cursor:
        cursor.execute(ANSWER, (101.0, True, "done", asked.pk))
        cursor.execute(ANSWER, (102.0, False, "nothing is there", asked.pk))
    asked.refresh_from_db()
    assert (asked.answered_at, asked.granted, asked.answer) == (101.0, True, "done")
