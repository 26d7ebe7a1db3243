"""What operators change through the API: with who and why, compare-and-set, dry runs, and operations that end."""

import pytest

from controlplane.commands import gateways, instances
from controlplane.databases import FACTS
from controlplane.domain.observing import Memory, State, stored
from controlplane.domain.topology import Topology
from controlplane.models import Attempt, Drain, Event, GroupIntent, Instance, Request
from tests.controlplane.api.client import Api, person
from tests.controlplane.queries.world import World

DP2_TP2 = Topology(2, 1, 2, 1)


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def last_event() -> Event:
    return Event.objects.using(FACTS).latest("revision")


def test_an_instance_is_added_edited_and_retired_with_who_and_why(operator):
    made = operator.post("instances", {"name": "a", "own_port": 9101, "reason": "new rack"})
    assert (made.status, made.headers["Location"]) == (201, "/api/v1/instances/a")
    assert made.headers["ETag"] == operator.get("instances/a").headers["ETag"]
    assert made.json["sentence"] == "a was added as prefill, reached by port 9101"
    assert (last_event().actor, last_event().reason) == ("operator-ann", "new rack")
    again = operator.post("instances", {"name": "a"})
    assert (again.status, again.code) == (409, "conflict")
    etag = operator.get("instances/a").headers["ETag"]
    changed = operator.patch("instances/a", {"own_port": None, "host_alias": "a.example"}, If_Match=etag)
    assert changed.json["changed"]
    told = operator.get("instances/a")
    assert (told.json["own_port"], told.json["host_alias"]) == (None, "a.example")
    assert told.headers["ETag"] == changed.headers["ETag"] != etag
    gone = operator.delete("instances/a", {"reason": "broken"}, If_Match=told.headers["ETag"])
    assert gone.json["sentence"].startswith("a is retired")
    assert (last_event().kind, last_event().reason) == ("instance.retired", "broken")


def test_a_key_of_an_engine_is_stored_sealed_and_never_told(operator):
    operator.post("instances", {"name": "a", "engine_url": "http://10.0.0.9:30000", "engine_key": "sk-secret"})
    told = operator.get("instances/a")
    assert told.json["engine_url"].startswith("http://10.0.0.9:30000")
    assert "sk-secret" not in told.response.content.decode()
    assert "sk-secret" not in Instance.objects.get(name="a").engine_key
    assert not Attempt.objects.filter(outcome__contains="sk-secret").exists()


def test_an_instance_is_observed_at_its_own_servers_until_it_is_said_that_it_is_not(operator):
    at = {"observed_url": "http://10.0.0.9:8998", "observed_engine_info_url": "http://10.0.0.9:6789"}
    made = operator.post("instances", {"name": "a", **at, "reason": "a new rack"})
    assert made.json["sentence"].endswith("observed at http://10.0.0.9:8998 and http://10.0.0.9:6789")
    told = operator.get("instances/a")
    assert {name: told.json[name] for name in at} == at
    assert (told.json["knowledge"], told.json["observation"]) == ("observed", None)
    explained = " ".join(operator.get("explain/instance/a").json["sentences"])
    assert "It is observed at http://10.0.0.9:8998, which has not answered yet" in explained
    heard = Memory(at["observed_url"], State.FILLING, count=3, since=1000.0, answered_at=1001.0)
    Instance.objects.using(FACTS).filter(name="a").update(observation=stored(heard))
    seen = operator.get("instances/a").json["observation"]
    assert (seen["state"], seen["registered"], seen["said"]) == ("filling", 3, {})
    assert (
        seen["sentence"] == "http://10.0.0.9:8998 answers that not all of its ranks have registered: 3 registered there"
    )
    moved = operator.patch("instances/a", {"observed_url": "http://10.0.0.8:8998"}, If_Match=told.headers["ETag"])
    after = operator.get("instances/a")
    assert (after.json["observation"], after.headers["ETag"]) == (None, moved.headers["ETag"]), "heard elsewhere"
    stale = operator.patch("instances/a", {"observed_url": ""}, If_Match=told.headers["ETag"])
    assert stale.status == 412 and "observed_url" in stale.json["difference"]
    operator.patch("instances/a", {"observed_url": "", "observed_engine_info_url": ""}, If_Match=after.headers["ETag"])
    assert operator.get("instances/a").json["knowledge"] == "registered"


@pytest.mark.parametrize("url", ["http://169.254.169.254/", "ftp://a", "http://u:p@a:8998"])
def test_what_must_not_be_asked_is_not_observed(operator, url):
    assert operator.post("instances", {"name": "a", "observed_url": url}).status in (400, 403, 422)


def test_edits_need_if_match_and_two_who_edit_at_once_do_not_overwrite_each_other(operator):
    instances.add("a", actor="anna")
    missing = operator.patch("instances/a", {"own_port": 9101})
    assert (missing.status, missing.code) == (428, "if_match_missing")
    assert operator.delete("instances/a").status == 428
    etag = operator.get("instances/a").headers["ETag"]
    bob = Api(user=person("operator", "bob"))
    assert bob.patch("instances/a", {"own_port": 9102, "reason": "mine"}, If_Match=etag).status == 200
    stale = operator.patch("instances/a", {"own_port": 9101}, If_Match=etag)
    assert (stale.status, stale.code) == (412, "stale")
    assert stale.json["difference"]["own_port"] == {"expected": None, "now": 9102}
    assert stale.json["difference"]["changed_by"] == {"now": "bob"}
    assert Instance.objects.get(name="a").own_port == 9102
    for tag in ('"nonsense"', 'W/"1"', "1", '"1', '"99"'):
        never = operator.patch("instances/a", {"own_port": 9101}, If_Match=tag)
        assert (never.status, never.json["difference"]["intent"]) == (412, {"now": "enabled"})
        assert never.json["detail"].startswith("a is at version 2, and never was at the one that was named")
        assert never.json["difference"]["version"] == {"expected": 99 if "99" in tag else None, "now": 2}
    for tag in ('"1", "2"', ""):
        assert operator.patch("instances/a", {"own_port": 9101}, If_Match=tag).status == 400
    assert operator.patch("instances/a", {"own_port": 9101}, If_Match="*").status == 200


def test_an_action_says_what_it_did_and_a_stale_one_does_nothing(operator):
    World().launch(DP2_TP2, first_port=4000)
    etag = operator.get("instances/prefill-a").headers["ETag"]
    done = operator.post("instances/prefill-a/cordon", {"dp": 1, "reason": "noisy"}, If_Match=etag)
    assert (done.status, done.json["changed"], done.json["dp"], done.json["intent"]) == (200, True, 1, "cordoned")
    assert done.headers["ETag"] == f'"{done.json["version"]}"'
    stale = operator.post("instances/prefill-a/cordon", {"reason": "late"}, If_Match=etag)
    assert (stale.status, Instance.objects.get().intent) == (412, "enabled")
    assert operator.post("instances/prefill-a/uncordon", {"dp": 1}).json["intent"] == "enabled"
    assert operator.post("instances/prefill-a/cordon", {"dp": 7}).status == 404
    assert operator.post("instances/ghost/cordon").code == "not_found"


def test_a_drain_is_an_operation_that_ends_when_it_is_cancelled(operator):
    World().launch(DP2_TP2, first_port=4000)
    begun = operator.post("instances/prefill-a/drain", {"dp": 1, "deadline_seconds": 600, "reason": "swap"})
    assert begun.status == 202, begun
    assert begun.headers["Location"] == f"/api/v1/operations/{begun.json['operation']}"
    running = operator.get(begun.headers["Location"])
    assert (running.json["state"], running.json["ended"], running.json["dp"]) == ("running", False, 1)
    assert running.json["safe_to_delete"] is False
    listed = operator.get("drains", {"instance": "prefill-a"}).json["items"]
    assert [row["operation"] for row in listed] == [begun.json["operation"]]
    assert operator.get(f"drains/{listed[0]['id']}").json["progress"] == "waiting"
    cancelled = operator.post("instances/prefill-a/cancel-drain", {"dp": 1, "to": "cordoned"})
    assert cancelled.json["intent"] == "cordoned"
    assert operator.get(begun.headers["Location"]).json["state"] == "cancelled"
    assert operator.get("drains", {"ended": "false"}).json["items"] == []
    assert operator.get("operations/drain-999999").status == operator.get("drains/999999").status == 404


def test_a_forced_end_is_never_called_drained(operator):
    World().launch(DP2_TP2, first_port=4000)
    begun = operator.post("instances/prefill-a/drain", {})
    forced = operator.post("instances/prefill-a/force-drain", {"reason": "power"})
    assert forced.status == 200, forced
    told = operator.get(begun.headers["Location"]).json
    assert (told["state"], told["ended"], told["safe_to_delete"]) == ("forced", True, False)


def test_a_dry_run_answers_the_plan_and_changes_nothing(operator):
    World().launch(DP2_TP2, first_port=4000)
    head = last_event().revision
    plan = operator.post("instances/prefill-a/drain", {"reason": "swap"}, query={"dry_run": "true"})
    assert (plan.status, plan.json["dry_run"], plan.json["changed"], plan.json["operation"]) == (200, True, True, None)
    assert (plan.json["plan"]["instances_now"], plan.json["plan"]["instances_after"]) == (1, 0)
    assert plan.json["plan"]["can_stop_admission"] is False
    assert any("Admission cannot be stopped" in sentence for sentence in plan.json["plan"]["sentences"])
    for action in ("cordon", "uncordon", "cancel-drain", "retire", "evict", "reregister"):
        tried = operator.post(f"instances/prefill-a/{action}", {}, query={"dry_run": "true"})
        assert (tried.status, tried.json["dry_run"]) == (200, True), (action, tried)
        assert "is with the bootstrap process" not in tried.json["sentence"], "nobody was asked"
    assert operator.post("instances/prefill-a/force-drain", {}, query={"dry_run": "true"}).status == 409
    assert (last_event().revision, Drain.objects.count(), Request.objects.count()) == (head, 0, 0)
    assert not GroupIntent.objects.exists()


def test_a_budget_refuses_and_its_plan_says_so(operator):
    World().launch(DP2_TP2, first_port=4000)
    refused = operator.post("instances/prefill-a/drain", {"min_ready": 1})
    assert (refused.status, refused.code) == (422, "budget")
    plan = operator.post("instances/prefill-a/drain", {"min_ready": 1}, query={"dry_run": "true"})
    assert (plan.status, plan.json["changed"]) == (200, False)
    assert "would remain" in plan.json["plan"]["refused"]
    assert Instance.objects.get().intent == "enabled"


def test_a_request_is_an_operation_that_ends_with_the_answer(operator):
    World().launch(DP2_TP2, first_port=4000)
    asked = operator.post("instances/prefill-a/evict", {"slot": "dp1.cp0.tp0.pp0", "reason": "hung"})
    assert (asked.status, asked.headers["Location"]) == (202, f"/api/v1/operations/{asked.json['operation']}")
    running = operator.get(asked.headers["Location"]).json
    assert (running["state"], running["slot"], running["actor"]) == ("running", "dp1.cp0.tp0.pp0", "operator-ann")
    Request.objects.update(answered_at=1.0, granted=False, answer="dp1 tp0 left before")
    ended = operator.get(asked.headers["Location"]).json
    assert (ended["state"], ended["ended"], ended["sentence"]) == ("refused", True, "dp1 tp0 left before")
    assert operator.post("instances/prefill-a/evict", {"slot": "dp9.cp0.tp0.pp0"}).status == 404
    assert operator.post("instances/prefill-a/evict", {"slot": "dp9"}).json["errors"][0]["pointer"] == "/slot"
    gone = operator.post("instances/prefill-a/evict", {"slot": "dp1.cp0.tp0.pp0", "launch": 9})
    assert (gone.status, gone.json["detail"]) == (404, "dp1 cp0 tp0 pp0 is not registered in launch 9 of prefill-a")
    assert operator.post("instances/prefill-a/evict", {"launch": 1}).status == 202
    assert Request.objects.latest("id").launch == 1
    for action in ("readmit", "reregister", "supersede"):
        assert operator.post(f"instances/prefill-a/{action}", {}).status == 202


def test_every_attempt_is_kept_with_who_from_where_and_why(operator, viewer, stranger):
    instances.add("a", actor="anna")
    operator.post("instances/a/cordon", {"reason": "hot"})
    viewer.post("instances/a/cordon", {"reason": "me too"})
    stranger.post("instances/a/cordon", {"reason": "hello"})
    operator.post("instances/ghost/cordon", {"reason": "typo"})
    rows = Attempt.objects.exclude(action="sign-in").order_by("id")
    kept = [(row.actor, row.action, row.target, row.allowed, row.status) for row in rows]
    assert kept == [
        ("operator-ann", "cordon", "a", True, 200),
        ("viewer-ann", "cordon", "a", False, 403),
        ("anonymous", "cordon", "a", False, 401),
        ("operator-ann", "cordon", "ghost", True, 404),
    ]
    first = rows[0]
    assert (first.reason, first.source, first.via) == ("hot", operator.source, "session")
    assert first.outcome.startswith("a is cordoned")
    assert first.request_id


def test_routers_are_named_edited_and_let_go(operator):
    instances.add("a", engine_url="http://10.0.0.9:30000", actor="anna")
    made = operator.post(
        "routers", {"name": "r", "url": "http://10.0.0.8:30000", "instances": ["a"], "api_key": "sk-1"}
    )
    assert (made.status, made.headers["Location"], made.headers["ETag"]) == (201, "/api/v1/routers/r", '"1"')
    told = operator.get("routers/r")
    assert (told.json["has_key"], [member["instance"] for member in told.json["members"]]) == (True, ["a"])
    assert "sk-1" not in told.response.content.decode()
    assert operator.patch("routers/r", {"instances": []}).status == 428
    changed = operator.patch("routers/r", {"instances": []}, If_Match=told.headers["ETag"])
    assert changed.json["changed"]
    stale = operator.patch("routers/r", {"instances": ["a"]}, If_Match=told.headers["ETag"])
    assert (stale.status, stale.code) == (412, "stale")
    assert [router["name"] for router in operator.get("routers").json["items"]] == ["r"]
    assert operator.delete("routers/r", If_Match=changed.headers["ETag"]).status == 200
    assert operator.get("routers/r").status == 404


def test_a_gateway_that_left_is_only_listed_when_asked_for(operator):
    gateways.join("g1")
    assert [row["state"] for row in operator.get("gateways").json["items"]] == ["present"]
    assert operator.delete("gateways/g1", {"reason": "host is gone"}).json["changed"]
    assert (last_event().kind, last_event().data) == ("gateway.left", last_event().data)
    assert operator.get("gateways").json["items"] == []
    assert [row["state"] for row in operator.get("gateways", {"left": "true"}).json["items"]] == ["left"]


def test_a_router_that_would_be_given_an_engines_key_is_named_by_an_administrator(operator, admin):
    assert operator.post("instances", {"name": "a"}).status == 201
    told = operator.get("instances/a")
    key = {"engine_url": "http://10.0.0.7:30000", "engine_key": "sk-engine", "reason": "a test"}
    assert operator.patch("instances/a", key, If_Match=told.headers["ETag"]).status == 200
    mine = {"name": "r", "url": "http://10.0.0.8:30000", "instances": ["a"], "reason": "a test"}
    refused = operator.post("routers", mine)
    assert refused.status == 403 and "an administrator must name it" in refused.json["detail"]
    made = admin.post("routers", mine)
    assert made.status == 201
    elsewhere = {"url": "http://10.0.0.9:30000", "reason": "a test"}
    assert operator.patch("routers/r", elsewhere, If_Match=made.headers["ETag"]).status == 403
    assert admin.patch("routers/r", elsewhere, If_Match=made.headers["ETag"]).status == 200
