"""A prefill that tells which DP group holds a room, while the directory restarts, stays away, or says no."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workers.agent import prefill as prefills
from workers.agent.asking import Request
from workers.agent.prefill import Prefill
from workers.agent.settings import Settings
from workers.agent.work import Desk
from workers.sdk import NotBound, Unreachable, WorkerError
from workers.sdk.errors import refused

AWAY = Unreachable("cp:8998", "the connection was refused: nobody listens there")


class Restarting:
    """A client whose directory answers each of the first binds with one of `problems`."""

    def __init__(self, *problems: WorkerError) -> None:
        self.problems, self.asked, self.bound = list(problems), 0, list[tuple[int, int]]()

    def bind(self, room: int, dp: int) -> None:
        self.asked += 1
        if self.problems:
            raise self.problems.pop(0)
        self.bound.append((room, dp))


def bind(client: Restarting, *, aborted: bool = False) -> None:
    prefill = cast(Any, SimpleNamespace(settings=Settings(mode="prefill"), client=client, _note=lambda *_, **__: None))
    with Desk(2).work(Request((1,), 7, 1, None, "", False), 1) as work:
        if aborted:
            work.abort("the client is gone")
        Prefill._bind(prefill, work)


def test_a_directory_that_restarts_is_asked_again_until_it_takes_the_word():
    client = Restarting(AWAY, AWAY, AWAY)
    bind(client)
    assert (client.asked, client.bound) == (4, [(7, 1)])


def test_one_that_stays_away_fails_the_request_in_time(monkeypatch):
    monkeypatch.setattr(prefills, "BIND_SECONDS", 0.5)
    client, began = Restarting(*[AWAY] * 1000), time.monotonic()
    with pytest.raises(Unreachable):
        bind(client)
    assert 1 < client.asked < 10 and time.monotonic() - began < 60


def test_a_no_and_a_request_that_was_given_up_are_not_asked_again():
    client = Restarting(refused("cp:8998", 403, "this network may not register"))
    with pytest.raises(WorkerError, match="this network may not register"):
        bind(client)
    gone = Restarting(AWAY, AWAY)
    with pytest.raises(Unreachable):
        bind(gone, aborted=True)
    assert client.asked == gone.asked == 1


def test_a_room_that_nobody_binds_in_time_is_no_fault_of_the_decode():
    assert NotBound("no rank of p bound room 7 within 4 s").status == 504
