"""Requests for a prefill that says nothing keep no request for another one waiting, and no queue of an agent is endless."""

import asyncio
import threading
from typing import Any

import pytest

from workers.agent import http
from workers.agent.asking import Request
from workers.agent.http import Door
from workers.agent.settings import Settings
from workers.agent.work import Desk
from workers.sdk import Overloaded, Place

SILENT, GOOD = Place("10.0.0.1", 8998), Place("10.0.0.2", 8998)


class Agent:
    """Answers for `GOOD` at once, and for all others when told."""

    ready, trouble = True, ""

    def __init__(self) -> None:
        self.settings, self.desk = Settings(mode="decode"), Desk(1)
        self.go_on = threading.Event()

    def serve(self, request: Request, on: Any) -> dict[str, Any]:
        assert request.place == GOOD or self.go_on.wait(60)
        return {"room": request.room}


def request(room: int, place: Place | None) -> Request:
    return Request((1,), room, 1, place, "", False)


@pytest.fixture
def door():
    made = Door(Agent())
    yield made
    made.agent.go_on.set()
    made.close()


async def test_a_prefill_that_says_nothing_keeps_its_own_requests_waiting_alone(door):
    waiting = [asyncio.create_task(door._serve(request(room, SILENT), print)) for room in range(http.AT_ONCE + 1)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert await door._serve(request(1000, GOOD), print) == {"room": 1000}
        door.agent.go_on.set()
        assert [one["room"] for one in await asyncio.gather(*waiting)] == list(range(http.AT_ONCE + 1))
    assert door._lines == {}


async def test_more_than_may_wait_are_refused(door, monkeypatch):
    monkeypatch.setattr(http, "MOST_WAITING", 3)
    waiting = [asyncio.create_task(door._serve(request(room, SILENT), print)) for room in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="3 requests wait for"):
        await door._serve(request(9, SILENT), print)
    waiting[0].cancel()
    door.agent.go_on.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError) and done[1:] == [{"room": 1}, {"room": 2}]
    assert door._lines == {}
