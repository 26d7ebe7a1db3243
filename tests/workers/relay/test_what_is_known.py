"""While the control plane is away a relay says what it knows, and how old that is; what it cannot know it does not make up."""

from __future__ import annotations

import json

import pytest

from tests.workers.relay.test_upkeep import DATABASE, FLUSH, plane, relay
from tests.workers.sdk.server import Said, say
from workers.relay import copying
from workers.relay.link import State

__all__ = ["plane", "relay"]

ASKED = {"decode": {"tp_size": 1, "is_mla": False, "page_size": 64}}
DRAINING = {"directives": [{"do": "drain"}], "launch": 1, "intent": "draining"}


def beats(answer):
    return lambda heard: say(answer) if heard.path == "/pd/v1/heartbeats" else None


async def resolved(relay):
    return json.loads((await relay.ask("POST", "/pd/v1/resolve", js=ASKED)).body)


@pytest.mark.parametrize(
    ("answer", "intent"),
    [
        (DRAINING, "draining"),
        ({"directives": [], "launch": 1, "intent": "cordoned"}, "cordoned"),
        ({"directives": [], "launch": 1, "intent": "enabled"}, "enabled"),
        # Of a control plane before it said so.
        ({"directives": [{"do": "drain"}], "launch": 1}, "draining"),
        ({"directives": [], "launch": 1}, ""),
    ],
)
async def test_the_intent_is_the_one_that_was_heard_last_and_it_is_said_how_long_ago(plane, relay, answer, intent):
    await relay.put()
    plane.says = beats(answer)
    await relay.upkeep.look()
    plane.says = lambda heard: DATABASE
    await relay.topology()
    assert relay.keeping.link.state is State.AWAY
    relay.now += 12.5
    said = await resolved(relay)
    assert (said["intent"], said["old"], said["heard_seconds_ago"]) == (intent, True, 12.5)
    status = json.loads((await relay.ask("GET", "/pd/v1/relay")).body)
    assert status["intent"] == {"said": intent, "seconds_ago": 12.5}


async def test_a_relay_that_was_never_answered_does_not_know_it(relay):
    await relay.put()
    said = await resolved(relay)
    assert (said["intent"], said["old"], said["heard_seconds_ago"]) == ("", True, None)


async def test_a_worker_that_drains_drains_on_while_the_control_plane_is_away_and_no_other_begins(plane, relay):
    await relay.upkeep.look()

    async def told(worker: str) -> list[str]:
        said = await relay.ask("POST", "/pd/v1/heartbeats", js={"worker": worker, "slots": [[0, 0, 0, 0]]})
        return [one["do"] for one in json.loads(said.body)["directives"]]

    plane.says = beats(DRAINING)
    assert await told("group 1") == ["drain"]
    plane.says = beats({"directives": [], "launch": 1, "intent": "enabled"})
    assert await told("group 0") == []
    plane.says = lambda heard: DATABASE
    assert [await told("group 1"), await told("group 0"), await told("group 1")] == [["drain"], [], ["drain"]]
    plane.says = beats({"directives": [], "launch": 1, "intent": "enabled"})
    await relay.upkeep.look()
    assert await told("group 1") == []
    plane.says = lambda heard: DATABASE
    assert await told("group 1") == []


async def test_what_is_too_large_for_a_copy_is_passed_on_and_said(plane, relay, monkeypatch, caplog):
    monkeypatch.setattr(copying, "MOST_SLOTS", 1)
    await relay.put(token="a", attn_tp_size=2)
    await relay.put(token="a", attn_tp_size=2, attn_tp_rank=1, rank_port=41001)
    for _ in range(3):
        await relay.upkeep.look()
    assert relay.keeping.link.together and (await relay.topology()).status == 200
    assert relay.door.answered == {"control plane": 1, "relay": 0} and relay.keeping.link.trouble == ""
    status = json.loads((await relay.ask("GET", "/pd/v1/relay")).body)
    assert "more than a relay keeps a copy of (1 ranks)" in status["uncopied"]
    assert sum("a copy" in record.getMessage() for record in caplog.records) == 1, "once"


async def test_of_what_is_too_large_health_turns_by_the_control_planes_word_alone(plane, relay, monkeypatch):
    await relay.upkeep.look()
    await relay.put()
    await relay.upkeep.look()
    assert relay.keeping.view is not None and await relay.health() == 200
    # Another launch, too large: whoever polls here is told twice, then all is well.
    monkeypatch.setattr(copying, "MOST_SLOTS", 0)
    relay.upkeep.registered()
    await relay.upkeep.look()
    assert [await relay.health(), await relay.health()] == [503, 503]
    await relay.upkeep.look()
    assert await relay.health() == 200 and relay.keeping.holding.told is None
    plane.says = lambda heard: DATABASE
    await relay.upkeep.look()
    assert relay.keeping.link.state is State.AWAY and await relay.health() == 200, "nothing is known to have changed"
    plane.says = lambda heard: FLUSH if heard.path == "/health" else None
    for _ in range(2):
        await relay.upkeep.look()
    assert await relay.health() == 503
    plane.says = lambda heard: Said(503, b"Prefill server not fully registered yet (0 workers registered)") if (
        heard.method == "GET" and "/route" in heard.path
    ) else None  # fmt: skip
    await relay.upkeep.look()
    assert await relay.health() == 503, "not before it can be read"
    plane.says = lambda heard: None
    for _ in range(2):
        await relay.upkeep.look()
    assert await relay.health() == 200
    monkeypatch.setattr(copying, "MOST_SLOTS", 8)
    relay.upkeep.registered()
    await relay.upkeep.look()
    assert relay.keeping.holding.told is not None and relay.upkeep.uncopied == ""
