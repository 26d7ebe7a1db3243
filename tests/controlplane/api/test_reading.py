"""What the API tells: instances and what is inside, rooms, events, the fleet as of now and as of then."""

import time

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from controlplane.commands import instances
from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.inquiry import KEYS
from controlplane.domain.topology import Topology
from controlplane.ledger.append import NewEvent, append
from controlplane.models import EngineInfo, RoomBinding, RoomCollision
from controlplane.queries import state
from tests.controlplane.queries.world import World

DP2_TP2 = Topology(2, 1, 2, 1)


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def test_an_instance_is_told_rolled_up_with_its_version_as_etag(viewer):
    world = World()
    ports = world.launch(DP2_TP2, first_port=4000, skip=1)
    world.refuse(ports[0])
    told = viewer.get("instances/prefill-a")
    assert told.status == 200, told
    assert (told.json["registered"], told.json["expected"], told.json["state"]) == (2, 4, "incomplete")
    assert told.json["missing"] == ["dp0.cp0.tp0.pp0", "dp1.cp0.tp1.pp0"]
    assert told.json["launch"]["topology"] == {"dp": 2, "cp": 1, "tp": 2, "pp": 1}
    assert told.json["left_lately"][0]["address"] == f"10.0.0.1:{ports[0]}"
    assert told.headers["ETag"] == f'"{told.json["version"]}"'
    assert viewer.get("instances/ghost").code == "not_found"


def test_instances_are_filtered_and_an_unknown_filter_is_refused(viewer):
    World("a").launch(DP2_TP2, first_port=4000)
    instances.add("b", role="decode", actor="anna")
    instances.add("c", actor="anna")
    instances.retire("c", actor="anna")

    def names(**query) -> list[str]:
        return [item["name"] for item in viewer.get("instances", query).json["items"]]

    assert names() == ["a", "b", "c"]
    assert names(role="decode") == ["b"]
    assert names(serving="true") == ["a"]
    assert names(state="retired") == names(intent="retired") == ["c"]
    assert names(name="b") == ["b"]
    refused = viewer.get("instances", {"rolle": "decode"})
    assert (refused.status, refused.code) == (400, "malformed")
    assert refused.json["errors"] == [
        {"pointer": "?rolle", "code": "unknown", "detail": "there is no such parameter; did you mean role?"}
    ]
    assert viewer.get("instances", {"serving": "maybe"}).json["errors"][0]["pointer"] == "?serving"


def test_pages_of_instances_are_stable_while_instances_are_added(viewer):
    for name in ("b", "d", "f", "h"):
        instances.add(name, actor="anna")
    first = viewer.get("instances", {"limit": 2}).json
    for name in ("a", "c", "e", "g"):
        instances.add(name, actor="anna")
    second = viewer.get("instances", {"limit": 2, "cursor": first["next"]}).json
    rest = viewer.get("instances", {"limit": 9, "cursor": second["next"]}).json
    seen = [item["name"] for page in (first, second, rest) for item in page["items"]]
    # Nobody twice, and none of those that were there at first is missing.
    assert seen == ["b", "d", "e", "f", "g", "h"]
    assert rest["next"] is None
    of_another_list = viewer.get("events", {"limit": 1}).json["next"]
    for cursor in ("!", "AAAA", "nonsense", "é", of_another_list):
        assert viewer.get("instances", {"cursor": cursor}).json["errors"][0]["pointer"] == "?cursor"


def test_launches_and_ranks_are_told_page_by_page(viewer):
    world = World()
    old = world.launch(DP2_TP2, first_port=4000)
    world.launch(DP2_TP2, first_port=5000)
    world.refuse(*old)
    world.probe(Contact.UP, *range(5000, 5004))
    launches = viewer.get("instances/prefill-a/launches", {"limit": 1}).json
    assert [launch["number"] for launch in launches["items"]] == [2]
    older = viewer.get("instances/prefill-a/launches", {"limit": 1, "cursor": launches["next"]}).json
    assert [launch["number"] for launch in older["items"]] == [1]
    seen, cursor = [], None
    while True:
        page = viewer.get("instances/prefill-a/ranks", {"limit": 3, **({"cursor": cursor} if cursor else {})}).json
        seen += [rank["slot"] for rank in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 4
    only = viewer.get("instances/prefill-a/ranks", {"dp": 1}).json["items"]
    assert {rank["slot"].split(".")[0] for rank in only} == {"dp1"}


def test_engine_info_is_told_without_its_weights(viewer):
    world = World()
    for epoch in (1, 2):
        EngineInfo.objects.create(
            instance_id=world.row.pk,
            rank=0,
            epoch=epoch,
            session="10.0.0.1:7000",
            digest="d" * 64,
            tensors=3,
            total_bytes=2**40,
            state="retired" if epoch == 1 else "live",
            at=world.now,
            ended_at=world.now if epoch == 1 else None,
        )
    items = viewer.get("instances/prefill-a/engine-info").json["items"]
    assert [(item["epoch"], item["state"]) for item in items] == [(2, "live"), (1, "retired")]
    assert len(viewer.get("instances/prefill-a/engine-info", {"state": "live"}).json["items"]) == 1


def test_rooms_are_strings_beyond_what_javascript_can_count(viewer):
    world = World()
    room, soon = 2**53 + 1, round((time.time() + 60) * 1000)
    RoomBinding.objects.using("traffic").create(instance_id=world.row.pk, room=room, dp=1, expires_ms=soon)
    RoomCollision.objects.using("traffic").create(instance_id=world.row.pk, room=room, before=0, after=1, at=world.now)
    found = viewer.get(f"rooms/{room}").json
    assert found["room"] == str(room)
    assert (found["items"][0]["dp_rank"], found["items"][0]["live"]) == (1, True)
    for listed in (viewer.get("rooms", {"instance": "prefill-a"}), viewer.get("instances/prefill-a/rooms")):
        assert [item["room"] for item in listed.json["items"]] == [str(room)]
    assert viewer.get("collisions").json["items"][0]["room"] == str(room)
    assert viewer.get("collisions", {"room": str(room), "instance": "prefill-a"}).json["items"][0]["after"] == 1
    assert viewer.get("rooms").json["errors"][0]["pointer"] == "?instance"
    assert viewer.get("rooms", {"instance": "ghost"}).status == 404
    assert viewer.get("rooms/9999999999999999999").status == 400


def test_events_are_told_backwards_for_people_and_forwards_for_readers(viewer):
    for name in ("a", "b", "c"):
        instances.add(name, actor="anna", reason="because")
    newest = viewer.get("events", {"limit": 2}).json
    assert [event["instance"] for event in newest["items"]] == ["c", "b"]
    assert newest["items"][0]["sentence"] == "c was added as prefill"
    older = viewer.get("events", {"limit": 2, "before": newest["next"]}).json
    assert [event["instance"] for event in older["items"]] == ["a"]
    assert older["next"] is None
    forwards = viewer.get("events", {"after": f"{newest['ledger']}:0", "limit": 2}).json
    assert ([event["instance"] for event in forwards["items"]], forwards["more"]) == (["a", "b"], True)
    rest = viewer.get("events", {"after": forwards["next"]}).json
    assert ([event["instance"] for event in rest["items"]], rest["more"]) == (["c"], False)
    assert viewer.get("events", {"after": rest["next"]}).json["items"] == []
    assert viewer.get("events", {"kind": "instance", "instance": "b"}).json["items"][0]["reason"] == "because"
    assert viewer.get("events", {"kind": "nonsense"}).status == 400
    until = viewer.get("events", {"as_of": f"{newest['ledger']}:1"}).json
    assert [event["instance"] for event in until["items"]] == ["a"]


def test_a_position_of_another_history_is_gone_and_says_what_to_do(viewer):
    instances.add("a", actor="anna")
    at = viewer.get("events").json
    for position in (f"{at['ledger']}:999", "another:1", f"{at['ledger']}:1:00000000"):
        gone = viewer.get("events", {"after": position})
        assert (gone.status, gone.code) == (410, "cursor_gone"), gone
        assert "snapshot" in gone.json["detail"]
    assert viewer.get("events", {"after": "nonsense"}).status == 400
    assert viewer.get("fleet", {"as_of": f"{at['ledger']}:999"}).status == 410


def test_the_fleet_is_a_snapshot_that_events_go_on_from(viewer):
    World().launch(DP2_TP2, first_port=4000)
    then = viewer.get("fleet").json
    assert then["state"]["instances"]["prefill-a"]["role"] == "prefill"
    instances.add("b", actor="anna")
    now = viewer.get("fleet").json
    page = viewer.get("events", {"after": then["cursor"]}).json
    assert [event["kind"] for event in page["items"]] == ["instance.added"]
    assert page["next"] == now["cursor"]
    assert now["revision"] == then["revision"] + 1


def test_what_this_version_cannot_follow_is_a_problem_with_a_sentence(viewer):
    instances.add("a", actor="anna")
    with transaction.atomic(using=FACTS):
        # As another version may have written it.
        append([NewEvent("drain.progressed", "a", {"dp": 77, "after": "empty", "blockers": []})])
    at = viewer.get("events", {"limit": 1}).json
    found = viewer.get("fleet", {"as_of": f"{at['ledger']}:{at['revision']}"})
    assert found.status == 409 and "cannot be followed by this version" in found.json["detail"]


def test_the_fleet_as_of_a_moment_is_what_it_was(viewer):
    instances.add("a", actor="anna")
    then = viewer.get("fleet").json
    moment = time.time()
    time.sleep(0.02)
    instances.add("b", actor="anna")
    for as_of in (then["cursor"], f"{then['ledger']}:{then['revision']}", _rfc3339(moment)):
        assert viewer.get("fleet", {"as_of": as_of}).json["state"] == then["state"]
    assert viewer.get("fleet", {"as_of": "yesterday"}).json["errors"][0]["pointer"] == "?as_of"
    assert viewer.get("fleet", {"instance": "b"}).json["state"]["instances"].keys() == {"b"}
    assert state.fleet_state()[1] == viewer.get("fleet").json["state"]


def test_an_unchanged_fleet_is_not_sent_again(viewer):
    instances.add("a", actor="anna")
    etag = viewer.get("fleet").headers["ETag"]
    same = viewer.get("fleet", If_None_Match=etag)
    assert (same.status, same.json, same.headers["ETag"]) == (304, None, etag)
    instances.add("b", actor="anna")
    assert viewer.get("fleet", If_None_Match=etag).status == 200


def test_the_number_of_queries_does_not_grow_with_the_fleet(viewer):
    def count(path: str) -> int:
        with CaptureQueriesContext(connections[READER]) as captured:
            assert viewer.get(path).status == 200
        return sum("SELECT" in query["sql"] for query in captured)

    paths = ("fleet", "instances", "explain/routable", "drains", "gateways", "events", "compatibility", "routers")
    World("first").launch(DP2_TP2, first_port=4000)
    before = {path: count(path) for path in paths}
    for number in range(4):
        world = World(f"more-{number}")
        world.launch(DP2_TP2, first_port=4000, skip=number)
        instances.add(f"decode-{number}", role="decode", actor="anna")
    assert {path: count(path) for path in paths} == before
    assert before["instances"] <= 14
    assert before["fleet"] <= 14


def test_why_is_told_in_sentences(viewer):
    World().launch(DP2_TP2, first_port=4000, skip=1)
    told = viewer.get("explain/instance/prefill-a").json["sentences"]
    assert told[0] == "prefill-a is not serving: 3/4, missing dp1 tp1."
    row = viewer.get("explain/routable").json["items"][0]
    assert not row["routable"]
    assert row["because"].startswith("launch 1 is not complete")
    assert {reason["fact"] for reason in row["reasons"]} == {"registration", "health", "intent", "breaker"}
    assert viewer.get("explain/routable", {"routable": "true"}).json["items"] == []


def test_why_is_told_as_questions_in_order_beside_the_sentences(viewer):
    World().launch(DP2_TP2, first_port=4000, skip=1)
    said = viewer.get("explain/instance/prefill-a").json
    assert list(said) == ["name", "sentences", "conclusion", "answers"]
    assert [answer["key"] for answer in said["answers"]] == list(KEYS)
    end = said["conclusion"]
    assert (end["key"], end["code"], end["also"]) == ("registered", "never", [])
    assert "nobody has registered as dp1 tp1" in end["sentence"] and end["next"]
    answers = {answer["key"]: answer for answer in said["answers"]}
    assert answers["engine"]["verdict"] == "not_observed" and answers["engine"]["at"] is None
    assert answers["registered"]["at"].endswith("Z") and answers["registered"]["old"] is False
    assert viewer.get("explain/instance/nobody").status == 404


def _rfc3339(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06d}Z"
