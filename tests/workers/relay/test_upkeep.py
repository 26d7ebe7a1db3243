"""What a relay does by itself, against a control plane that answers as it is told: what it is told again, in which order, and
when its word counts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wire.client import rank
from tests.workers.relay.inside import Inside
from tests.workers.sdk.directory import Directory
from tests.workers.sdk.server import HANG, Heard, Said, Server, say, serving
from tests.workers.sdk.waiting import soon
from workers.relay import door, telling, upkeep
from workers.relay.link import State

DATABASE = Said(503, b"the database cannot be reached right now; nothing was changed, try again")
ILLS = ("it hangs", "its database is away", "a page in front of it", "it wants a token")
FLUSH = Said(503, b"instance p changed or lost a rank: drop what is cached of it")


class Plane:
    """A directory that takes heartbeats. `says(heard)` may answer instead of it; None: it does."""

    def __init__(self) -> None:
        self.directory = Directory()
        self.says: Callable[[Heard], Any] = lambda heard: None
        self.directives: list[dict[str, Any]] = []
        self.launch: int | None = None
        self.directory.before = self._before
        self.server: Server

    def _before(self, heard: Heard) -> Any:
        said = self.says(heard)
        if said is None and heard.path == "/pd/v1/heartbeats":
            return say({"directives": self.directives, "launch": self.launch})
        return said

    def heard(self, method: str, path: str) -> list[Heard]:
        return [one for one in self.server.heard if (one.method, one.path.partition("?")[0]) == (method, path)]

    def told(self) -> list[int]:
        """The ports of the ranks that were registered, in order."""
        return [one.json()["rank_port"] for one in self.heard("PUT", "/route")]


@pytest.fixture
def plane() -> Iterator[Plane]:
    made = Plane()
    with serving(made.directory.answer) as made.server:
        yield made


@pytest.fixture
async def relay(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(door, "_seen", lambda request: None)
    made = Inside(tmp_path / "relay", f"127.0.0.1:{plane.server.port}").open()
    yield made
    await made.close()


async def test_what_was_acknowledged_is_told_in_order_and_then_its_word_counts(plane, relay):
    for n, token in enumerate("aabb"):
        assert (await relay.put(token=token, attn_tp_size=2, attn_tp_rank=n % 2, rank_port=41000 + n)).status == 200
    await relay.bind(7, 0)
    assert relay.keeping.link.state is State.AWAY and plane.server.heard == []
    await relay.upkeep.look()
    assert relay.keeping.link.together
    assert {*plane.told()[:2]} == {41000, 41001} and {*plane.told()[2:]} == {41002, 41003}
    tokens = [one.headers["x-pd-generation"] for one in plane.heard("PUT", "/route")]
    assert tokens == ["a", "a", "b", "b"]
    await relay.upkeep.telling.forward_rooms()
    assert plane.directory.rooms == {7: 0} and relay.keeping.rooms.pending == 0
    await relay.upkeep.look()
    assert len(plane.told()) == 4, "once"
    await relay.close()
    again = Inside(relay.directory, relay.control_plane).open()
    await again.upkeep.look()
    await again.upkeep.telling.forward_rooms()
    assert len(plane.told()) == 4 and len(plane.heard("POST", "/register_dp_rank")) == 1, "and not after a restart"
    await again.close()


async def test_whoever_registered_meanwhile_is_not_followed_by_the_one_whose_slot_it_was(plane, relay):
    for n in range(telling.WINDOW + 1):
        await relay.put(attn_tp_size=telling.WINDOW + 1, attn_tp_rank=n, rank_port=41000 + n)
    last = 41000 + telling.WINDOW
    relay.keeping.link.came_back()
    once = iter([True])

    def while_told(heard: Heard) -> None:
        if heard.method == "PUT" and next(once, False):
            said = json.loads(relay.keeping.holding.seat(telling.WINDOW + 1).put.body)
            relay.keeping.put(json.dumps({**said, "rank_port": 42000}), None, "", "127.0.0.1", pending=True)

    plane.says = while_told
    assert await relay.upkeep.telling.replay() and last not in plane.told() and len(plane.told()) == telling.WINDOW
    assert await relay.upkeep.telling.replay() and plane.told()[-1] == 42000


async def test_while_it_answers_every_word_is_its_own(plane, relay):
    await relay.upkeep.look()
    assert (await relay.topology()).body.startswith(b"Prefill server not fully registered yet (0")
    assert (await relay.put()).status == 200
    assert plane.told() == [41000]
    plane.says = lambda heard: say({"said": "by it"}) if heard.method == "GET" and "/route" in heard.path else None
    assert json.loads((await relay.topology()).body) == {"said": "by it"}
    plane.says = lambda heard: Said(409, b"page_size differs") if heard.method == "PUT" else None
    said = await relay.put(page_size=1)
    assert (said.status, said.body) == (409, b"page_size differs")
    assert [seat.said.facts.page_size for seat in relay.keeping.holding.seats()] == [64], "refused is not held"


@pytest.mark.parametrize("trouble", [HANG, DATABASE, Said(502, b"<html>"), Said(401, b"a token is needed")], ids=ILLS)
async def test_what_is_not_its_word_is_answered_from_here(plane, relay, trouble):
    await relay.upkeep.look()
    await relay.put()
    await relay.upkeep.look()
    plane.says = lambda heard: trouble
    assert (await relay.topology()).status == 200
    assert relay.keeping.link.state is State.AWAY and relay.keeping.link.trouble
    assert (await relay.put(rank_port=42000)).status == 200
    assert [await relay.bind(1, 0), await relay.find(1), await relay.health()] == [200, {"1": 0}, 200]
    plane.says = lambda heard: None
    await relay.upkeep.look()
    assert relay.keeping.link.state is not State.AWAY and plane.told()[-1] == 42000


async def test_rooms_that_were_bound_elsewhere_are_asked_for_and_who_asked_is_told(plane, relay):
    await relay.upkeep.look()
    plane.directory.rooms = {5: 1}
    await relay.bind(7, 0)
    assert await relay.find(5, 6, 7) == {"5": 1, "7": 0}
    (asked,) = plane.heard("POST", "/query_dp_ranks")
    assert asked.json() == {"bootstrap_rooms": [5, 6]}
    await relay.upkeep.tell_who_asked()
    assert plane.heard("POST", "/query_dp_ranks")[-1].json() == {"bootstrap_rooms": [7]}


async def test_it_beats_for_ranks_and_registers_again_what_it_is_asked_for(plane, relay):
    await relay.upkeep.look()
    assert plane.heard("POST", "/pd/v1/heartbeats")[-1].json()["slots"] == [], "it lives, whoever else does"
    await relay.put(token="a", attn_tp_size=2)
    await relay.put(token="b", attn_tp_size=2, rank_port=42000)
    plane.directives = [{"do": "register", "slots": [[0, 0, 0, 0]]}, {"do": "drain"}]
    await relay.upkeep.telling.beat()
    beats = [one.json() for one in plane.heard("POST", "/pd/v1/heartbeats")[-2:]]
    assert [(beat["worker"], beat["generation"]) for beat in beats] == [("relay/test", "b"), ("relay/test/a", "a")]
    assert beats[0]["slots"] == [[0, 0, 0, 0]] and relay.upkeep.telling.draining
    plane.directives = []
    told = len(plane.told())
    await relay.upkeep.look()
    assert plane.told()[told:] == [41000, 42000]
    await relay.upkeep.telling.beat()
    assert not relay.upkeep.telling.draining


async def test_a_registration_that_is_refused_afterwards_is_said_and_served_on(plane, relay, caplog):
    await relay.put()
    plane.says = lambda heard: Said(409, b"it fits neither launch") if heard.method == "PUT" else None
    await relay.upkeep.look()
    assert "was acknowledged here: it fits neither launch" in caplog.text
    assert relay.keeping.link.state is State.CATCHING_UP
    assert (await relay.topology()).status == 200 and await relay.health() == 200
    told = json.loads((await relay.ask("GET", "/pd/v1/relay")).body)
    assert told["launches"][0]["ranks"][0]["refused"] == "it fits neither launch"


async def test_its_word_counts_when_it_serves_the_same_or_had_time_enough(plane, relay):
    await relay.put(token="a")
    clock = [0.0]
    relay.upkeep._clock = lambda: clock[0]
    plane.says = lambda heard: Said() if heard.method == "PUT" else None
    await relay.upkeep.look()
    assert relay.keeping.link.state is State.CATCHING_UP, "it does not serve yet what was registered here"
    clock[0] = 60.0
    await relay.upkeep.look()
    assert relay.keeping.link.state is State.CATCHING_UP and (await relay.topology()).status == 200
    clock[0] = 60.0 + upkeep.HANDOVER_SECONDS
    await relay.upkeep.look()
    assert relay.keeping.link.together and (await relay.topology()).status == 503


async def test_another_launch_than_was_served_here_is_flushed(plane, relay):
    await relay.put(token="a")
    await relay.upkeep.look()
    assert [await relay.health(1), await relay.health(2)] == [200, 200]
    plane.directory.restart()
    await relay.upkeep.look()
    plane.directory.answer(heard_put(rank(rank_port=45000, enable_kv_cache_sharding=False)))
    plane.launch = 2
    await relay.upkeep.telling.beat()
    await relay.upkeep.look()
    assert (await relay.slot()).status == 503, "not before both were told"
    assert [await relay.health(n) for n in (1, 2, 1, 2)] == [503, 503, 503, 503]
    assert [await relay.health(1), json.loads((await relay.slot()).body)["rank_port"]] == [200, 45000]


async def test_its_own_flush_is_a_flush_here_and_no_look_up_is_answered_between(plane, relay):
    await relay.put(token="a")
    await relay.upkeep.look()
    assert await relay.health() == 200
    plane.says = lambda heard: FLUSH if heard.path == "/health" else None
    await relay.upkeep.look()
    assert (await relay.slot()).status == 503 and await relay.health() == 503
    plane.says = lambda heard: None
    plane.directory.restart()
    plane.directory.answer(heard_put(rank(rank_port=45000, enable_kv_cache_sharding=False)))
    await relay.upkeep.look()
    assert await relay.health() == 503
    assert [await relay.health(), json.loads((await relay.slot()).body)["rank_port"]] == [200, 45000]


async def test_a_retired_instance_is_404_for_decodes_too(plane, relay):
    await relay.put(token="a")
    plane.says = lambda heard: Said(404, b"instance p is retired") if heard.path == "/health" else None
    await relay.upkeep.look()
    assert await relay.health() == 404


def heard_put(body: dict[str, Any]) -> Heard:
    return Heard("PUT", "/route", {}, json.dumps(body).encode(), 0)


async def test_nobody_is_asked_without_pause_when_it_refuses(plane, relay, monkeypatch):
    """Each second once, whatever it says: neither a token that is not taken nor a rank that is refused is a reason to hurry."""
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.2)
    await relay.put(token="a")
    plane.directives = [{"do": "register", "slots": [[0, 0, 0, 0]]}]
    for said in (Said(401, b"a token is needed"), Said(409, b"it fits neither launch")):
        plane.says = lambda heard, said=said: (
            said if heard.method in ("PUT", "POST") and heard.path == "/route" else None
        )
        if said.status == 401:
            plane.says = lambda heard: Said(401, b"a token is needed") if heard.method != "GET" else None
        before, begun = len(plane.heard("GET", "/health")), time.monotonic()
        running = asyncio.create_task(relay.upkeep.run())
        await soon(lambda before=before: len(plane.heard("GET", "/health")) >= before + 9)
        assert time.monotonic() - begun > 0.9
        running.cancel()
        await asyncio.wait({running})
