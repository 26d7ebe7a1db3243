"""Workers report rungs, people ask where a room stopped: over the API, with rooms as text and times as RFC 3339."""

import pytest

from controlplane.databases import TRAFFIC
from controlplane.domain.topology import Topology
from controlplane.models import RoomBinding, RoomReport
from controlplane.queries import memo
from tests.controlplane.api.client import Api, token_of
from tests.controlplane.queries.world import World

ROOM = 2**62 + 1


@pytest.fixture(autouse=True)
def _anew(on_backend):
    memo.forget()


def item(rung: str, result: str = "passed", **more) -> dict:
    return {"room": str(ROOM), "instance": "prefill-a", "rung": rung, "result": result, "age_seconds": 30.5, **more}


def serving() -> World:
    world = World("prefill-a")
    world.launch(Topology(2, 1, 2, 1), first_port=4000)
    return world


def test_what_a_worker_reports_is_what_people_are_told():
    world = serving()
    RoomBinding.objects.using(TRAFFIC).create(
        instance_id=world.row.pk, room=ROOM, dp=1, expires_ms=round((world.now + 320) * 1000)
    )
    worker = Api(token=token_of("report", "read"))
    told = [
        item("resolved", took_seconds=0.5),
        item("connected", "unreachable", detail="nobody greets at 10.0.0.1:4002"),
    ]
    said = worker.post(
        "workers/evidence", {"source": "d/1", "evidence": [*told, {**item("resolved"), "instance": "ghost"}]}
    )
    assert said.json == {"kept": 2, "left_out": 0, "unknown": ["ghost"], "repeated": False}
    assert RoomReport.objects.using(TRAFFIC).first().speaker.endswith("robot")
    found = worker.get(f"explain/room/{ROOM}")
    assert found.status == 200, found
    assert (found.json["room"], found.json["proven"], found.json["live"]) == (str(ROOM), 2, True)
    assert [rung["standing"] for rung in found.json["rungs"]] == [
        "passed", "passed", "failed", "not_observed", "not_observed",
    ]  # fmt: skip
    end = found.json["conclusion"]
    assert (end["kind"], end["head"]) == ("failed", "Failed at connected.") and "nobody greets" in end["sentence"]
    moments = {one["name"]: one for one in found.json["timeline"]}
    assert moments["first asked"]["knowledge"] == "reported" and moments["registered"]["knowledge"] == "observed"
    assert moments["answered"]["at"] > moments["first asked"]["at"] and moments["verified"]["at"] is None


def test_an_item_that_makes_no_sense_is_pointed_at_and_nothing_is_kept():
    serving()
    worker = Api(token=token_of("report"))
    refused = worker.post("workers/evidence", {"source": "w", "evidence": [item("resolved"), item("arrived")]})
    assert refused.status == 400 and refused.json["errors"][0]["pointer"] == "/evidence/1/rung"
    # Workers of a later version leave out what is pointed at so.
    newer = worker.post("workers/evidence", {"source": "w", "newer": 1, "evidence": [item("resolved", newest=1)]})
    found = {(fault["pointer"], fault["code"]) for fault in newer.json["errors"]}
    assert newer.status == 400 and found == {("/newer", "unknown"), ("/evidence/0/newest", "unknown")}
    for wrong in ({"room": "x"}, {"age_seconds": None}, {"result": "No Word"}, {"detail": "x" * 201}, {"more": 1}):
        assert worker.post("workers/evidence", {"source": "w", "evidence": [item("resolved", **wrong)]}).status == 400
    assert worker.post("workers/evidence", {"source": "w", "evidence": [item("resolved")] * 2001}).status == 400
    assert worker.post("workers/evidence", {"evidence": []}).status == 400
    assert not RoomReport.objects.using(TRAFFIC).exists()
    assert worker.post("workers/evidence", {"source": "w", "evidence": []}).json["kept"] == 0


def test_a_batch_whose_answer_was_lost_is_sent_again_and_counted_once():
    serving()
    worker = Api(token=token_of("report"))
    body = {"source": "w", "batch": {"run": "0123456789abcdef", "number": 1}, "evidence": [item("resolved")]}
    assert worker.post("workers/evidence", body).json["repeated"] is False
    # It is older by now, which makes no other batch of it.
    again = worker.post("workers/evidence", body | {"evidence": [item("resolved") | {"age_seconds": 60.0}]})
    assert again.json == {"kept": 1, "left_out": 0, "unknown": [], "repeated": True}
    assert RoomReport.objects.using(TRAFFIC).count() == 1
    assert worker.post("workers/evidence", body | {"batch": None}).json["repeated"] is False
    for wrong in ({"run": "x", "number": 1}, {"run": "0123456789abcdef", "number": 0}, {"run": "0123456789abcdef"}):
        refused = worker.post("workers/evidence", body | {"batch": wrong})
        assert refused.status == 400 and refused.json["errors"][0]["pointer"].startswith("/batch/"), refused.json


def test_a_token_of_one_instance_tells_of_rooms_of_that_one_alone():
    serving(), World("b")
    own = Api(token=token_of("report", instance="prefill-a"))
    both = [item("resolved"), {**item("resolved"), "instance": "b"}]
    assert own.post("workers/evidence", {"source": "w", "evidence": both}).status == 403
    assert own.post("workers/evidence", {"source": "w", "evidence": both[:1]}).json["kept"] == 1
    assert own.get(f"explain/room/{ROOM}").status == 403


def test_a_room_that_nobody_knows_is_explained_too_and_a_number_that_is_none_is_not_found(viewer):
    serving()
    found = viewer.get(f"explain/room/{ROOM}").json
    assert found["proven"] == 0 and found["conclusion"]["kind"] == "unbound"
    assert {one["knowledge"] for one in found["timeline"]} == {"not_observed"}
    assert viewer.get("explain/room/x").status == 404
