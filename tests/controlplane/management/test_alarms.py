"""`manage.py alarms`: listed the worst first, shown with what to do, acknowledged, and the webhook tried out."""

import time

import pytest
from django.conf import settings

from controlplane.management.operating import os_user
from controlplane.models import Attempt
from tests.controlplane.commands.alarming import a_notice, an_alarm
from tests.doubles.receiver import Receiver


def test_open_alarms_are_listed_the_worst_first(alone):
    assert (alone.run("alarms", "list").returncode, alone.run("alarms", "list").stdout) == (1, "No alarm is open.\n")
    stalled = an_alarm("prefill-b", key="k", severity="warning", returns=5, since=time.time() - 7300)
    down = an_alarm("prefill-a")
    an_alarm("prefill-c", resolved_at=time.time())
    done = alone.run("alarms", "list")
    assert done.returncode == 0
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["ALARM", "SEVERITY", "STATUS", "SINCE", "WHAT"]
    assert lines[0].split()[:3] == [str(down.pk), "critical", "open"] and "prefill-a takes no requests" in lines[0]
    assert lines[1].split()[:5] == [str(stalled.pk), "warning", "open", "2", "h"] and lines[1].endswith(", flapping")
    assert len(alone.run("alarms", "list", "--all").stdout.splitlines()) == 4
    code, found = alone.json("alarms", "list", "--severity", "warning")
    assert (code, [row["alarm"] for row in found]) == (0, [stalled.pk]) and found[0]["acknowledged"]["at"] is None
    assert alone.json("alarms", "list", "--instance", "prefill-a")[1][0]["alarm"] == down.pk


def test_one_is_shown_with_what_it_means_and_what_was_told(alone):
    alarm = an_alarm()
    a_notice(alarm, state="delivered", attempts=1, status=200, ended_at=time.time())
    said = alone.run("alarms", "show", str(alarm.pk)).stdout
    assert said.startswith("critical: prefill-a takes no requests: 1 of its 2 ranks is gone (alarm")
    assert "Next: Look at host 10.0.0.1." in said and "It means: It served, and some of its ranks are gone" in said
    assert "The webhook: raised was taken" in said
    code, found = alone.json("alarms", "show", str(alarm.pk))
    assert (code, found["runbook"], found["notices"][0]["state"]) == (0, "down-instance", "delivered")
    missing = alone.run("alarms", "show", "4711")
    assert (missing.returncode, missing.stderr) == (1, "error: there is no alarm 4711\n")


def test_one_is_acknowledged_with_a_reason_and_audited(alone):
    alarm = an_alarm()
    assert alone.run("alarms", "ack", str(alarm.pk)).returncode == 2
    assert alone.run("alarms", "ack", str(alarm.pk), "--reason", " ").returncode == 2
    done = alone.run("alarms", "ack", str(alarm.pk), "--reason", "a new disk", "--actor", "anna")
    assert done.returncode == 0 and done.stdout.startswith(f"alarm {alarm.pk} is acknowledged: prefill-a")
    assert "acknowledged" in alone.run("alarms", "list").stdout
    assert "anna looks after it since" in alone.run("alarms", "show", str(alarm.pk)).stdout
    assert alone.json("alarms", "ack", str(alarm.pk), "--reason", "mine")[1]["changed"]
    rows = Attempt.objects.filter(action="alarm.acknowledge").order_by("id").values_list("actor", "allowed", "reason")
    assert list(rows) == [(os_user(), False, " "), ("anna", True, "a new disk"), (os_user(), True, "mine")]


def test_the_webhook_is_tried_out(alone, monkeypatch):
    refused = alone.run("alarms", "test")
    assert (refused.returncode, refused.stderr) == (
        1,
        "error: PDCP_ALARM_WEBHOOK_URL is not set: nobody is told of alarms\n",
    )
    assert "Nobody is told" in alone.run("alarms", "notices").stdout
    with Receiver() as receiver:
        monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", receiver.hook)
        done = alone.run("alarms", "test")
        host = receiver.hook.split("/")[2]
        assert done.returncode == 0 and done.stdout.startswith(f"{host} took it in ")
        assert receiver.kinds == ["test"]
        receiver.answer = 404
        code, found = alone.json("alarms", "test")
        assert (code, found["taken"], found["problem"]) == (1, False, "it answered 404")
        said = alone.run("alarms", "notices").stdout
        assert "test refused after 1 attempts: it answered 404" in said and "s3cret" not in said
        assert [row["state"] for row in alone.json("alarms", "notices")[1]] == ["refused", "delivered"]


@pytest.mark.parametrize("wrong", [("list", "--severity", "loud"), ("show", "x"), ("notices", "--state", "lost"), ()])
def test_wrong_usage_exits_with_2(alone, wrong):
    done = alone.run("alarms", *wrong)
    assert done.returncode == 2 and "Traceback" not in done.stderr
