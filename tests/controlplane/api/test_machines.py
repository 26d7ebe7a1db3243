"""Machines: tokens and what they open, gateways and workers that report, decodes that resolve."""

import time

import pytest

from controlplane.commands import instances
from controlplane.domain.topology import Topology
from controlplane.models import Attempt, Event, IdempotentRequest, MachineToken, OpenRooms
from tests.controlplane.api.client import Api, token_of
from tests.controlplane.queries.world import World

DP2_TP2 = Topology(2, 1, 2, 1)


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


@pytest.fixture
def gateway() -> Api:
    return Api(token=token_of("gateway", "read"))


def test_a_token_is_shown_once_and_works_until_it_is_revoked(admin):
    made = admin.post("tokens", {"name": "grafana", "verbs": ["read"], "reason": "dashboards"})
    assert made.status == 201, made
    token, key = made.json["token"], made.json["key"]
    robot = Api(token=token)
    assert robot.get("instances").status == 200
    assert Api(token=token, headers=None).client is not None
    listed = admin.get("tokens")
    assert [(row["name"], row["state"]) for row in listed.json["items"]] == [("grafana", "active")]
    assert token not in listed.response.content.decode()
    assert not Attempt.objects.filter(outcome__contains=token).exists()
    assert admin.delete(f"tokens/{key}", {"reason": "done"}).json["changed"]
    refused = robot.get("instances")
    assert (refused.status, refused.code) == (401, "unauthenticated")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert not admin.delete(f"tokens/{key}").json["changed"]
    assert admin.delete("tokens/pdcp_0000000000").status == 404


def test_a_token_that_is_asked_for_again_with_the_same_key_is_not_shown_again(admin):
    body = {"name": "grafana", "verbs": ["read"]}
    first = admin.post("tokens", body, Idempotency_Key="k1")
    again = admin.post("tokens", body, Idempotency_Key="k1")
    assert (again.status, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert (again.json["key"], again.json["token"]) == (first.json["key"], None)
    assert "shown once" in again.json["sentence"]
    assert first.json["token"] not in IdempotentRequest.objects.get().body
    assert MachineToken.objects.count() == 1


def test_tokens_do_not_make_tokens_and_none_is_made_to_administer(admin):
    refused = admin.post("tokens", {"name": "root", "verbs": ["administer"]})
    assert refused.json["errors"][0]["pointer"] == "/verbs/0"
    everything = Api(token=token_of("read", "operate", "gateway", "report", "register", "resolve", "engine-info"))
    assert everything.post("tokens", {"name": "child", "verbs": ["read"]}).status == 403
    assert everything.get("tokens").status == everything.get("attempts").status == 403
    past = admin.post("tokens", {"name": "old", "verbs": ["read"], "expires_at": "2001-01-01T00:00:00Z"})
    assert past.status == 400


def test_a_token_of_one_instance_opens_that_one_alone():
    for name in ("a", "b"):
        instances.add(name, actor="anna")
    own = Api(token=token_of("read", "operate", "report", instance="a"))
    assert own.get("instances/a").status == 200
    assert own.post("instances/a/cordon").json["changed"]
    for path in ("instances/b", "instances", "fleet", "gateways", "explain/routable", "rooms/1", "events", "drains"):
        denied = own.get(path)
        assert (denied.status, denied.json["detail"]) == (403, "this token is bound to instance a"), path
    assert own.post("instances/b/cordon").status == 403
    for path in ("events", "drains", "rooms", "collisions", "explain/routable", "fleet"):
        assert own.get(path, {"instance": "a"}).status == 200, path
        assert own.get(path, {"instance": "b"}).status == 403, path
    drain = Api(token=token_of("operate")).post("instances/b/drain").json["operation"]
    assert own.get(f"operations/{drain}").status == own.get(f"drains/{drain.split('-')[1]}").status == 403
    both = [{"instance": name, "open_rooms": 1, "age_seconds": 0} for name in ("a", "b")]
    assert own.post("workers/open-rooms", {"source": "w", "open_rooms": both}).status == 403
    assert not OpenRooms.objects.exists()
    assert own.post("workers/open-rooms", {"source": "w", "open_rooms": both[:1]}).json["kept"] == 1
    assert own.post("workers/open-rooms", {"source": "w", "open_rooms": []}).status == 200


def test_a_gateway_joins_acknowledges_reports_and_leaves(gateway):
    World().launch(DP2_TP2, first_port=4000)
    joined = gateway.post("gateways", {"name": "g1", "url": "http://10.0.0.7:8080"})
    assert joined.status == 200, joined
    now = gateway.get("fleet").json
    said = gateway.post("gateways/g1/acknowledge", {"ledger": now["ledger"], "revision": now["revision"]})
    assert said.json == {"ledger": now["ledger"], "revision": now["revision"]}
    beyond = gateway.post("gateways/g1/acknowledge", {"ledger": now["ledger"], "revision": now["revision"] + 99})
    assert beyond.status == 409
    report = {"instance": "prefill-a", "dp": 1, "state": "open", "reason": "3 of 3 failed"}
    assert gateway.post("gateways/g1/breakers", {"breakers": [report]}).json == {"kept": 1, "turned": 1, "unknown": []}
    stranger = {**report, "instance": "ghost"}
    assert gateway.post("gateways/g1/breakers", {"breakers": [stranger]}).json["unknown"] == ["ghost"]
    rooms = [{"instance": "prefill-a", "dp": 0, "open_rooms": 3, "age_seconds": 0.5}]
    assert gateway.post("gateways/g1/open-rooms", {"open_rooms": rooms}).json["kept"] == 1
    outcomes = [{"prefill": "prefill-a", "outcome": "ok", "count": 5}]
    assert gateway.post("gateways/g1/outcomes", {"outcomes": outcomes}).json["kept"] == 1
    told = gateway.get("gateways/g1").json
    assert (told["state"], told["open_breakers"], told["acknowledged"]) == (
        "present", 1, f"{now['ledger']}:{now['revision']}",
    )  # fmt: skip
    breaker = gateway.get("instances/prefill-a").json["breakers"][0]
    assert (breaker["gateway"], breaker["dp"], breaker["state"]) == ("g1", 1, "open")
    assert gateway.delete("gateways/g1").json["changed"]
    assert gateway.post("gateways/g1/breakers", {"breakers": []}).status == 404
    assert gateway.post("gateways/ghost/open-rooms", {"open_rooms": []}).status == 404
    assert Event.objects.latest("revision").kind == "gateway.left"


def test_a_report_points_at_the_item_that_is_wrong(gateway):
    gateway.post("gateways", {"name": "g1"})
    items = [{"instance": "a", "state": "open"}, {"instance": "a", "dp": -1, "state": "ajar", "since": 3}]
    refused = gateway.post("gateways/g1/breakers", {"breakers": items})
    assert {error["pointer"] for error in refused.json["errors"]} == {
        "/breakers/1/dp",
        "/breakers/1/state",
        "/breakers/1/since",
    }
    many = [{"instance": "a", "state": "open"}] * 2001
    assert gateway.post("gateways/g1/breakers", {"breakers": many}).status == 400
    uncounted = {"open_rooms": [{"instance": "a", "open_rooms": 1}]}
    assert gateway.post("gateways/g1/open-rooms", uncounted).json["errors"][0]["pointer"] == "/open_rooms/0/age_seconds"


def test_reports_leave_no_audit_row_unless_they_were_denied(gateway):
    gateway.post("gateways", {"name": "g1"})
    before = Attempt.objects.count()
    gateway.post("gateways/g1/breakers", {"breakers": []})
    assert Attempt.objects.count() == before
    Api(token=token_of("read")).post("gateways/g1/breakers", {"breakers": []})
    assert not Attempt.objects.latest("id").allowed


def test_a_decode_resolves_the_mapping_and_all_addresses_in_one_answer():
    world = World()
    world.launch(DP2_TP2, first_port=4000)
    decode = Api(token=token_of("resolve"))
    asked = {"instance": "prefill-a", "decode": {"tp_size": 2, "is_mla": False, "page_size": 64}}
    found = decode.post("resolve", asked)
    assert found.status == 200, found
    ranks = {rank["engine_rank"]: rank for rank in found.json["ranks"]}
    assert [group["targets"][0]["address"] for group in ranks[1]["groups"]] == ["10.0.0.1:4001", "10.0.0.1:4003"]
    same = decode.post("resolve", asked, If_None_Match=found.headers["ETag"])
    assert (same.status, same.json) == (304, None)
    one = decode.post("resolve", {**asked, "engine_rank": 0, "dp": 1}).json
    assert [target["slot"] for target in one["ranks"][0]["groups"][0]["targets"]] == ["dp1.cp0.tp0.pp0"]
    wrong = decode.post("resolve", {**asked, "decode": {"tp_size": 2, "is_mla": False, "page_size": 32}})
    assert (wrong.status, wrong.code) == (409, "conflict")
    assert "page_size differs" in wrong.json["detail"]
    assert decode.post("resolve", {**asked, "decode": {}}).status == 400
    assert decode.post("resolve", {**asked, "instance": "ghost"}).status == 404
    world.refuse(4000)
    away = decode.post("resolve", asked)
    assert (away.status, away.code, away.headers["Retry-After"]) == (503, "unavailable", "1")


def test_compatibility_says_which_fields_disagree_and_what_sglang_would_do(viewer):
    World().launch(DP2_TP2, first_port=4000)
    instances.add("decode-a", role="decode", actor="anna")
    unknown = viewer.get("compatibility").json["items"][0]
    assert (unknown["prefill"], unknown["decode"], unknown["known_from"]) == ("prefill-a", "decode-a", "nobody")
    posted = viewer.post("compatibility", {"decode": {"tp_size": 3, "page_size": 64, "is_mla": True}}).json["items"][0]
    assert (posted["verdict"], posted["known_from"]) == ("incompatible", "posted")
    assert any(finding["fatal"] and finding["what_happens"] for finding in posted["findings"])
    assert viewer.get("compatibility", {"prefill": "decode-a"}).status == 409
    assert viewer.get("compatibility", {"prefill": "ghost"}).status == 404


def test_a_token_expires_at_its_time(admin):
    soon = time.time() + 3600
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(soon))
    made = admin.post("tokens", {"name": "brief", "verbs": ["read"], "expires_at": stamp})
    assert made.json["expires_at"].startswith(stamp[:-1])


def test_only_the_token_that_joined_a_gateway_speaks_for_it_while_it_is_heard_from(gateway, operator, admin):
    other = Api(token=token_of("gateway", "read", name="other"))
    assert gateway.post("gateways", {"name": "g1", "lease_seconds": 3600}).status == 200
    now = gateway.get("fleet").json
    told = {"ledger": now["ledger"], "revision": now["revision"]}
    for path, body in (
        ("gateways/g1/acknowledge", told),
        ("gateways/g1/open-rooms", {"open_rooms": []}),
        ("gateways/g1/breakers", {"breakers": []}),
        ("gateways/g1/outcomes", {"outcomes": []}),
        ("gateways", {"name": "g1"}),
    ):
        refused = other.post(path, body)
        assert refused.status == 403 and "alone speaks for it" in refused.json["detail"]
    assert other.delete("gateways/g1").status == 403
    assert gateway.get("gateways/g1").json["acknowledged"] is None
    assert gateway.post("gateways/g1/acknowledge", told).status == 200
    # An operator removes it; then the name is free.
    assert operator.delete("gateways/g1").json["changed"]
    assert other.post("gateways", {"name": "g1"}).status == 200
