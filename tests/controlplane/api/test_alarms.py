"""Alarms through the API: listed, narrowed, paged, acknowledged by somebody with a reason, and what the webhook was told."""

import time

import pytest

from controlplane.models import Attempt, Event
from tests.controlplane.api.client import Api, token_of
from tests.controlplane.commands.alarming import a_notice, an_alarm


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def test_alarms_are_listed_narrowed_and_paged(viewer):
    down = an_alarm("prefill-a")
    fleet = an_alarm(
        "", key="away:events::The bootstrap process", kind="events", place="", name="The bootstrap process"
    )
    over = an_alarm("prefill-b", severity="warning", resolved_at=time.time())
    an_alarm("prefill-c", raised_at=None)
    all_ = viewer.get("alarms")
    assert [row["id"] for row in all_.json["items"]] == [over.pk, fleet.pk, down.pk] and all_.json["next"] is None
    one = all_.json["items"][-1]
    assert (one["status"], one["severity"], one["instance"], one["runbook"]) == (
        "open", "critical", "prefill-a", "down-instance",
    )  # fmt: skip
    assert one["sentence"] == "prefill-a takes no requests: 1 of its 2 ranks is gone" and one["next"]

    def found(**query):
        return [row["id"] for row in viewer.get("alarms", query).json["items"]]

    assert found(status="open") == [fleet.pk, down.pk] and found(status="resolved") == [over.pk]
    assert found(severity="warning") == [over.pk] and found(instance="prefill-a") == [down.pk]
    first = viewer.get("alarms", {"limit": 2})
    rest = viewer.get("alarms", {"limit": 2, "cursor": first.json["next"]})
    assert [row["id"] for row in first.json["items"] + rest.json["items"]] == [over.pk, fleet.pk, down.pk]
    assert viewer.get(f"alarms/{down.pk}").json == one


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("alarms", {"status": "loud"}, 400),
        ("alarms", {"severity": "bad"}, 400),
        ("alarms", {"cursor": "x"}, 400),
        ("alarms/9", {}, 404),
        ("alarms/999999999999999999", {}, 404),
        ("alarms/notices", {"state": "lost"}, 400),
        ("alarms/x", {}, 404),
    ],
)
def test_what_makes_no_sense_is_a_problem_with_a_sentence(viewer, path, query, status):
    assert viewer.get(path, query).status == status


def test_an_operator_acknowledges_with_a_reason_and_a_viewer_does_not(operator, viewer):
    alarm = an_alarm()
    path = f"alarms/{alarm.pk}/acknowledge"
    assert viewer.post(path, {"reason": "mine"}).status == 403
    assert operator.post(path, {}).json["errors"][0]["pointer"] == "/reason"
    assert operator.post(path, {"reason": "  "}).status == 400
    done = operator.post(path, {"reason": "a new disk is on its way"})
    assert done.status == 200 and done.json["changed"]
    assert operator.post(path, {"reason": "a new disk is on its way"}).json["changed"] is False
    row = viewer.get(f"alarms/{alarm.pk}").json
    assert row["acknowledged_by"].endswith("operator-ann") and row["acknowledged_reason"] == "a new disk is on its way"
    event = Event.objects.get(kind="alarm.acknowledged")
    assert (event.instance, event.reason) == ("prefill-a", "a new disk is on its way")
    said = viewer.get("events", {"kind": "alarm.acknowledged"}).json["items"][0]["sentence"]
    assert said.startswith(f"somebody looks after alarm {alarm.pk}: prefill-a takes no requests")
    assert Attempt.objects.filter(action="alarm.acknowledge", allowed=True).exists()
    assert operator.post("alarms/4711/acknowledge", {"reason": "x"}).status == 404
    alarm.resolved_at = time.time()
    alarm.save()
    assert operator.post(path, {"reason": "late"}).status == 409


def test_a_token_of_one_instance_sees_its_own_alarms_alone():
    own, other = an_alarm("prefill-a"), an_alarm("prefill-b")
    robot = Api(token=token_of("read", "operate", instance="prefill-a"))
    assert robot.get("alarms").status == 403
    assert [row["id"] for row in robot.get("alarms", {"instance": "prefill-a"}).json["items"]] == [own.pk]
    assert robot.get(f"alarms/{own.pk}").status == 200 and robot.get(f"alarms/{other.pk}").status == 403
    assert robot.post(f"alarms/{other.pk}/acknowledge", {"reason": "x"}).status == 403
    assert robot.post(f"alarms/{own.pk}/acknowledge", {"reason": "x"}).status == 200
    assert robot.get("alarms/notices").status == 403


def test_what_the_webhook_was_told_is_listed_without_its_words_and_without_the_address(viewer, monkeypatch):
    alarm = an_alarm()
    now = time.time()
    taken = a_notice(alarm, state="delivered", attempts=1, status=200, took_seconds=0.02, ended_at=now)
    waits = a_notice(alarm, "resolved", attempts=3, status=503, problem="it answered 503", due_at=now + 8)
    items = viewer.get("alarms/notices").json["items"]
    assert [row["id"] for row in items] == [waits.notice, taken.notice]
    assert (items[0]["state"], items[0]["attempts"], items[0]["problem"]) == ("waiting", 3, "it answered 503")
    assert items[1]["ended_at"] and "body" not in items[1]
    assert [row["id"] for row in viewer.get("alarms/notices", {"state": "delivered"}).json["items"]] == [taken.notice]
