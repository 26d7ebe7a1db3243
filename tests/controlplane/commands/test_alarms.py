"""The alarm task on real tables: raised, told and resolved once each, whoever looks at once; acknowledged; forgotten."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import alarm_notices, alarms, intent
from controlplane.commands.alarms import Round
from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.ledger.tail import head
from controlplane.models import Alarm, AlarmDesk, AlarmNotice
from controlplane.queries import alarms as queries
from tests.controlplane.commands.alarming import (
    WHO,
    Watcher,
    events,
    forget,
    many,
    open_alarms,
    serving,
    the_alarm,
    told,
)

HOOK = "https://alerts.example.org/hooks/s3cret"


@pytest.fixture(autouse=True)
def _on_backend(on_backend, monkeypatch):
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", HOOK)
    forget()
    return on_backend


def test_a_fleet_that_is_well_raises_nothing_and_writes_nothing():
    serving()
    watch = Watcher()
    before = head()
    watch(60)
    assert head() == before and not Alarm.objects.using(FACTS).exists()
    assert AlarmDesk.objects.using(FACTS).get().decided_at == 0


def test_an_instance_that_lost_a_rank_is_an_alarm_until_it_is_whole_again():
    world = serving()
    watch = Watcher()
    watch(9)
    world.refuse(4001)
    assert watch(12) == Round(raised=1, told=1)
    alarm = the_alarm()
    assert (alarm.severity, alarm.state, alarm.instance) == ("critical", "down", "prefill-a")
    assert alarm.sentence == "prefill-a takes no requests: 1 of its 2 ranks is gone"
    assert alarm.next.startswith("Look at host 10.0.0.1") and alarm.runbook == "down-instance"
    assert alarm.since == pytest.approx(world.now, abs=1)
    assert watch(60) == Round()
    world.put((0, 0, 1, 0), world.directory.current.topology, port=4001)
    world.probe(Contact.UP, 4000, 4001)
    world.end_flush()
    assert watch(9) == Round() and the_alarm().clear_since is not None
    assert watch(30) == Round(resolved=1, told=1)
    assert open_alarms() == [] and queries.listing(status="resolved")[0].id == alarm.id
    assert told() == [("raised", alarm.id), ("resolved", alarm.id)]
    said = [(event.kind, event.instance, event.data["alarm"], event.data["severity"]) for event in events()]
    assert said == [
        ("alarm.raised", "prefill-a", alarm.id, "critical"),
        ("alarm.resolved", "prefill-a", alarm.id, "critical"),
    ]
    assert events("alarm.resolved")[0].data["open_seconds"] > 60


def test_what_operators_want_so_is_no_alarm():
    serving().refuse(4001)
    watch = Watcher()
    watch(12)
    intent.cordon("prefill-a", actor="anna", reason="a new disk")
    assert watch(30).resolved == 1 and open_alarms() == []


def test_a_bootstrap_process_that_is_gone_is_an_alarm_of_the_whole_fleet():
    serving()
    watch = Watcher()
    watch.leads = False
    watch(30)
    first = queries.worst_first(tuple(open_alarms()))[0]
    assert (first.severity, first.instance, first.runbook) == ("critical", "", "away-events")
    assert events("alarm.raised")[0].instance == ""


def test_a_message_says_all_that_a_receiver_needs(monkeypatch):
    monkeypatch.setattr(settings, "CSRF_TRUSTED_ORIGINS", ["https://*.example.org", "https://pd.example.org"])
    monkeypatch.setattr(settings, "PDCP_SITE_NAME", "eu-1")
    serving().refuse(4001)
    Watcher()(12)
    body = json.loads(AlarmNotice.objects.using(FACTS).get().body)
    alarm = the_alarm()
    assert body["version"] == 1 and body["id"] == AlarmNotice.objects.using(FACTS).get().notice
    assert (body["kind"], body["status"], body["alarm"], body["key"]) == ("raised", "open", alarm.id, alarm.key)
    assert (body["severity"], body["sentence"]) == ("critical", alarm.sentence)
    assert body["since"].endswith("Z") and body["since"] <= body["raised_at"] and body["resolved_at"] is None
    assert body["link"] == f"https://pd.example.org/alarms/{alarm.id}/"
    assert body["runbook"] == "https://pd.example.org/alarms/runbooks/#down-instance"
    assert body["site"] == {"name": "eu-1", "kind": "dev"}


def test_many_that_look_at_once_raise_and_resolve_once():
    world = serving()
    watch = Watcher()
    gate = threading.Barrier(3)

    def look(now: float) -> Round:
        try:
            gate.wait(30)
            return alarms.watch(now)
        finally:
            connections.close_all()

    def together(rounds: int) -> list[Round]:
        found = []
        for _ in range(rounds):
            watch.now += 3.0
            watch.look()
            watch.now += 1.0
            found += pool.map(look, [watch.now] * 3)
        return found

    with ThreadPoolExecutor(3) as pool:
        world.refuse(4001)
        done = together(4)
        assert len(events("alarm.raised")) == 1 and told() == [("raised", the_alarm().id)]
        assert sum(one.raised for one in done) <= 1
        intent.cordon("prefill-a", actor="anna", reason="a new disk")
        together(8)
    assert len(events("alarm.resolved")) == 1 and [kind for kind, _ in told()] == ["raised", "resolved"]


def test_whoever_looked_earlier_and_comes_later_changes_nothing():
    serving().refuse(4001)
    watch = Watcher()
    watch(6)
    late = watch.now - 3.0
    before = list(Alarm.objects.using(FACTS).values())
    assert watch.look(late) == Round()
    # Even what it saw and they did not.
    Alarm.objects.using(FACTS).all().delete()
    assert watch.look(late) == Round() and not Alarm.objects.using(FACTS).exists()
    assert before[0]["raised_at"] is None


def test_a_thousand_instances_that_are_down_are_one_alarm_and_one_message():
    many(1000)
    watch = Watcher()
    watch(30)
    group = next(alarm for alarm in open_alarms() if alarm.grouped)
    assert (group.name, group.count, group.runbook) == ("1,000 instances", 1000, "down-instance")
    assert len(open_alarms()) <= 2 and Alarm.objects.using(FACTS).count() <= 3
    kinds = [kind for kind, number in told() if number == group.id]
    assert kinds == ["raised"]


def test_acknowledging_says_who_and_why_and_does_not_end_it():
    world = serving()
    world.refuse(4001)
    watch = Watcher()
    watch(12)
    alarm = the_alarm()
    done = alarms.acknowledge(alarm.id, **WHO)
    assert done.changed and done.sentence.startswith(f"alarm {alarm.id} is acknowledged: prefill-a takes no requests")
    assert not alarms.acknowledge(alarm.id, **WHO).changed
    assert alarms.acknowledge(alarm.id, actor="bob", reason="I took over").changed
    now = the_alarm()
    assert (now.acknowledged_by, now.acknowledged_reason, now.status) == ("bob", "I took over", "open")
    assert [(event.actor, event.reason) for event in events("alarm.acknowledged")] == [
        tuple(WHO.values()),
        ("bob", "I took over"),
    ]
    assert [kind for kind, _ in told()] == ["raised", "acknowledged", "acknowledged"]
    assert json.loads(AlarmNotice.objects.using(FACTS).last().body)["acknowledged_by"] == "bob"
    # A round keeps what somebody said.
    world.refuse(4000)
    watch(12)
    assert the_alarm().acknowledged_by == "bob" and "all of its ranks" in the_alarm().what


def test_what_cannot_be_acknowledged_is_refused_with_a_sentence():
    serving().refuse(4001)
    watch = Watcher()
    watch(3)
    pending = Alarm.objects.using(FACTS).get()
    for number, code in ((pending.pk, "not_found"), (4711, "not_found")):
        with pytest.raises(Refused, match="there is no alarm") as refused:
            alarms.acknowledge(number, **WHO)
        assert refused.value.code == code
    watch(12)
    with pytest.raises(Refused, match="say why"):
        alarms.acknowledge(pending.pk, actor="anna", reason="  ")
    intent.cordon("prefill-a", actor="anna", reason="a new disk")
    watch(30)
    with pytest.raises(Refused, match="is over"):
        alarms.acknowledge(pending.pk, **WHO)


def test_without_a_webhook_nothing_waits_for_one(monkeypatch):
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", "")
    serving().refuse(4001)
    watch = Watcher()
    assert watch(12).raised == 1 and told() == []
    alarms.acknowledge(the_alarm().id, **WHO)
    assert told() == []
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", HOOK)
    watch()
    assert told() == [("raised", the_alarm().id)]


def test_a_round_in_which_nothing_changes_takes_no_lock_and_a_constant_number_of_queries():
    many(40)
    watch = Watcher()
    watch(60)

    def asked() -> tuple[int, int]:
        with CaptureQueriesContext(connections[FACTS]) as wrote, CaptureQueriesContext(connections[READER]) as read:
            forget()
            alarms.watch(watch.now + 1)
        return len(wrote), sum("SELECT" in query["sql"] for query in read)

    wrote, read = asked()
    assert wrote == 0
    many_more = read
    Alarm.objects.using(FACTS).filter(resolved_at__isnull=False).delete()
    assert asked() == (0, many_more)


def test_rounds_go_on_when_the_clock_was_set_back():
    world = serving()
    watch = Watcher()
    world.refuse(4001)
    watch(12)
    now = watch.now
    AlarmDesk.objects.using(FACTS).update(decided_at=now + 50)
    serving("prefill-c", first_port=6000).refuse(6001)
    watch(12)
    assert {row.instance for row in open_alarms()} == {"prefill-a"}, "somebody looked later, and was faster"
    AlarmDesk.objects.using(FACTS).update(decided_at=now + 7200)
    watch(12)
    assert "prefill-c" in {row.instance for row in open_alarms()}, "nobody waits for two hours"


def test_what_began_before_the_clock_was_set_back_is_raised_in_its_time():
    serving().refuse(4001)
    watch = Watcher()
    watch()
    Alarm.objects.using(FACTS).update(began_at=watch.now + 7200)
    assert watch(15) == Round(raised=1, told=1)
    assert the_alarm().since <= watch.now


def test_what_is_long_over_is_forgotten_and_what_is_open_is_not():
    serving().refuse(4001)
    watch = Watcher()
    watch(12)
    intent.cordon("prefill-a", actor="anna", reason="a new disk")
    watch(30)
    intent.uncordon("prefill-a", actor="anna", reason="done")
    watch(12)
    month = watch.now + alarms.FORGET_AFTER_SECONDS + 60
    assert alarms.forget_old(now=watch.now + 3600) == 0
    assert alarms.forget_old(now=month) == 1 and len(open_alarms()) == 1
    assert alarm_notices.forget_old(now=watch.now + 3600) == 0
    alarm_notices.forget_old(now=watch.now + alarm_notices.GIVE_UP_SECONDS + 60)
    assert {row.state for row in queries.notices()} == {"given_up"}
    assert queries.notices()[0].problem == alarm_notices.GAVE_UP
    assert alarm_notices.forget_old(now=month) == 3 and queries.notices() == ()


def test_what_waits_for_a_webhook_that_is_not_set_any_more_ends_and_says_so(monkeypatch):
    alarm_notices.write([alarm_notices.trial()], now=time.time())
    alarm_notices.forget_old(now=time.time())
    assert queries.post().waiting == 1
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", "")
    alarm_notices.forget_old(now=time.time())
    (row,) = queries.notices()
    assert (row.state, row.problem, queries.post().waiting) == ("given_up", alarm_notices.NO_WEBHOOK, 0)


def test_too_many_messages_that_wait_lose_the_oldest_and_say_so(monkeypatch):
    monkeypatch.setattr(alarm_notices, "MOST_WAITING", 5)
    alarm_notices.write([alarm_notices.trial() for _ in range(8)], now=time.time())
    alarm_notices.forget_old(now=time.time())
    states = [row.state for row in reversed(queries.notices())]
    assert states == ["given_up"] * 3 + ["waiting"] * 5
