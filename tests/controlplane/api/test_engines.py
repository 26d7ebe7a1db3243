"""Engines through the API: how they are, that somebody doubts it, and under which thresholds they are judged."""

import time

import pytest

from controlplane.commands import examining, instances
from controlplane.commands.examining import Examiner
from controlplane.models import Attempt, Event, Suspicion
from tests.controlplane.api.client import Api, token_of
from tests.doubles.engine import Engine

WHO = {"actor": "anna"}


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setattr(examining, "SPREAD_SECONDS", 0.0)
    with Engine("decode", model="glm") as running:
        instances.add("d", role="decode", engine_url=running.url, **WHO)
        yield running


def test_an_instance_tells_how_its_engine_is_on_what_that_rests_and_who_it_is(viewer, engine):
    unknown = viewer.get("instances/d").json["engine"]
    assert (unknown["state"], unknown["at"], unknown["asked_at"]) == ("unknown", engine.url, None)
    engine.counts[0].waiting = 2
    Examiner().round()
    told = viewer.get("instances/d").json["engine"]
    assert (told["state"], told["status"], told["fails"], told["load"]["waiting"]) == ("up", 200, 0, 2)
    assert (told["said"]["model"], told["said"]["version"]) == ("glm", "0.5.23")
    assert told["signals"] == {"connect": True, "http": True, "progress": None}
    assert told["proof_at"] and told["identified_at"] and told["since"]
    explained = viewer.get("explain/routable?instance=d").json["items"][0]
    assert [reason["code"] for reason in explained["reasons"] if reason["fact"] == "health"] == ["engine_up"]
    story = viewer.get("explain/instance/d").json["sentences"]
    assert any(said.startswith("Its engine is up for") for said in story)
    assert any("a decode with model glm of version 0.5.23" in said for said in story)


def test_who_doubts_an_instance_has_it_asked_and_is_told_what_is_known(operator, engine):
    answer = operator.post("instances/d/suspect", {"reason": "slow"})
    assert (answer.status, answer.json["changed"], answer.json["engine"]["state"]) == (202, True, "unknown")
    assert answer.headers["Location"] == "/api/v1/instances/d"
    assert "are asked now" in answer.json["sentence"]
    again = operator.post("instances/d/suspect", {})
    assert (again.status, again.json["changed"]) == (202, False)
    row = Suspicion.objects.get()
    assert (row.instance, row.reason) == ("d", "slow") and abs(row.at - time.time()) < 60
    assert not Event.objects.filter(kind__contains="suspect").exists()
    assert operator.post("instances/ghost/suspect", {}).status == 404
    instances.retire("d", **WHO)
    assert operator.post("instances/d/suspect", {}).status == 409


def test_gateways_and_workers_may_doubt_and_readers_may_not(engine, viewer, stranger):
    before = Attempt.objects.count()
    for verb in ("gateway", "report", "operate"):
        assert Api(token=token_of(verb)).post("instances/d/suspect", {}).status == 202
    assert Attempt.objects.count() == before, "a gateway may say it many times a minute"
    assert viewer.post("instances/d/suspect", {}).status == 403
    assert Api(token=token_of("read")).post("instances/d/suspect", {}).status == 403
    assert stranger.post("instances/d/suspect", {}).status == 401


def test_thresholds_and_interval_of_one_instance_are_said_with_it_and_can_be_taken_back(operator):
    body = {"name": "p", "probe_seconds": 2.5, "fail_after": 5, "pass_after": 1}
    assert operator.post("instances", body).status == 201
    seen = operator.get("instances/p")
    assert [seen.json[name] for name in ("probe_seconds", "fail_after", "pass_after")] == [2.5, 5, 1]
    changed = operator.patch("instances/p", {"fail_after": None}, If_Match=seen.headers["ETag"])
    assert changed.status == 200 and operator.get("instances/p").json["fail_after"] is None
    event = Event.objects.filter(kind="instance.changed").get()
    assert '"fail_after":null' in event.data
    for wrong in ({"fail_after": 0}, {"pass_after": 101}, {"probe_seconds": 0.01}, {"probe_seconds": "often"}):
        assert operator.post("instances", {"name": "q", **wrong}).status == 400
