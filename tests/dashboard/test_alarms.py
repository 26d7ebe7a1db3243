"""Alarms on their pages: what is open and what to do, who looks after it, what is over, what the webhook was told."""

import time

import pytest
from django.conf import settings

from controlplane.commands import alarms as commands
from controlplane.databases import FACTS
from controlplane.domain.runbooks import RUNBOOKS
from controlplane.ledger.tail import latest
from controlplane.models import Alarm
from tests.controlplane.commands.alarming import WHO, Watcher, a_notice, an_alarm, forget, serving
from tests.dashboard.conftest import queries
from tests.dashboard.test_acting import Shown, ask, kept, post, toast

QUERIES_OF_THE_LIST = 13
QUERIES_OF_ONE = 9


def test_an_open_alarm_says_since_when_what_why_what_next_and_leads_on(viewer, operator):
    alarm = an_alarm(returns=4, clear_since=time.time())
    an_alarm("prefill-b", key="stalled:launches:prefill-b:x", severity="warning", state="stalled", why="")
    said = viewer.text("/alarms/")
    assert "Open 2 2 that nobody looks after" in said
    assert "critical clearing flapping prefill-a takes no requests: 1 of its 2 ranks is gone alarm" in said
    assert "Missing dp0 tp1. Look at host 10.0.0.1 Show ranks : prefill-a · Runbook" in said
    html = viewer.get("/alarms/")
    assert f'href="/alarms/{alarm.pk}/"' in html and 'href="/alarms/runbooks/#down-instance"' in html
    assert f"/act/acknowledge-alarm?on={alarm.pk}" in operator.get("/alarms/")
    assert "this needs the role operator" in html
    # The worst comes first, and what somebody looks after last.
    assert said.index("prefill-a takes") < said.index("prefill-b takes")
    commands.acknowledge(alarm.pk, **WHO)
    said = viewer.text("/alarms/", parts="open")
    assert said.index("prefill-b takes") < said.index("prefill-a takes")
    assert "anna: a new disk is on its way" in said and "1 that nobody looks after" in said


def test_the_navigation_counts_what_nobody_looks_after(viewer):
    assert "that nobody looks after" not in viewer.text("/alarms/", parts="frame")
    alarm = an_alarm()
    an_alarm("prefill-b", raised_at=None)
    assert "Alarms 1 that nobody looks after" in viewer.text("/tokens/", parts="frame")
    commands.acknowledge(alarm.pk, **WHO)
    assert "that nobody looks after" not in viewer.text("/alarms/", parts="frame")


def test_a_fleet_without_alarms_says_so_and_teaches_the_webhook(viewer):
    said = viewer.text("/alarms/")
    assert "No alarm is open." in said and "No alarm is over." in said
    assert "Nobody is told: PDCP_ALARM_WEBHOOK_URL is not set." in said
    assert "PDCP_ALARM_WEBHOOK_URL=https://alerts.example.org/hook" in said


def test_what_is_over_is_paged_and_narrowed(viewer):
    now = time.time()
    for number in range(60):
        an_alarm(f"prefill-{number:02}", severity="info" if number % 2 else "warning", resolved_at=now - number)
    said = viewer.get("/alarms/", parts="over")
    newest = Alarm.objects.using(FACTS).order_by("-pk").first().pk
    assert "prefill-59" in said and "prefill-10" in said and "prefill-09" not in said
    assert f"?before={newest - 49}" in said
    assert "prefill-09" in viewer.get(f"/alarms/?before={newest - 49}", parts="over")
    only = viewer.text("/alarms/?severity=info&instance=prefill-07", parts="over")
    assert "prefill-07" in only and "prefill-09" not in only
    assert "No alarm is over of prefill-08." in viewer.text("/alarms/?severity=info&instance=prefill-08", parts="over")


def test_the_page_of_one_alarm_says_what_it_means_and_what_was_told(viewer, monkeypatch):
    monkeypatch.setattr(settings, "PDCP_ALARM_WEBHOOK_URL", "https://alerts.example.org/hooks/s3cret")
    alarm = an_alarm()
    a_notice(alarm, state="delivered", attempts=2, status=200, took_seconds=0.25, ended_at=time.time())
    a_notice(alarm, "acknowledged", attempts=1, status=503, problem="it answered 503", due_at=time.time() + 60)
    said = viewer.text(f"/alarms/{alarm.pk}/")
    assert "Nobody looks after it yet." in said and RUNBOOKS["down-instance"].means in said
    assert "raised" in said and "delivered" in said and "it answered 200" in said
    assert "acknowledged waiting" in said and "it answered 503" in said
    assert "messages to alerts.example.org" in said and "s3cret" not in viewer.get(f"/alarms/{alarm.pk}/")
    commands.acknowledge(alarm.pk, **WHO)
    assert "Looked after by anna. anna said: a new disk is on its way." in viewer.text(
        f"/alarms/{alarm.pk}/", parts="head"
    )
    list_ = viewer.text("/alarms/", parts="post")
    assert "alerts.example.org does not take messages: it answered 503" in list_ and "The last 2 messages" in list_


def test_an_alarm_is_acknowledged_in_a_dialog_with_a_reason(operator, viewer):
    alarm = an_alarm()
    shown = ask(operator, "acknowledge-alarm", str(alarm.pk))
    assert f"Acknowledge alarm {alarm.pk}?" in shown.text and "prefill-a takes no requests" in shown.text
    assert f"python manage.py alarms ack {alarm.pk} --reason" in shown.text
    empty = post(operator, "acknowledge-alarm", shown.fields, reason="")
    assert empty.status_code == 422 and "required" in Shown(empty).text
    told = toast(post(operator, "acknowledge-alarm", shown.fields, reason="a new disk"))
    assert told["text"].startswith(f"alarm {alarm.pk} is acknowledged: prefill-a takes no requests")
    event = latest(1)[0]
    assert (event.kind, event.actor, event.reason) == ("alarm.acknowledged", "operator-ann", "a new disk")
    assert ("alarm.acknowledge", f"alarm {alarm.pk}", True, 200, "operator-ann", "page", "a new disk") in kept()
    assert "so far" in ask(operator, "acknowledge-alarm", str(alarm.pk)).text
    assert viewer.client.get(f"/act/acknowledge-alarm?on={alarm.pk}").status_code == 403
    for on, status in (("4711", 404), ("x", 400), ("", 400), ("9" * 30, 400)):
        assert operator.client.get(f"/act/acknowledge-alarm?on={on}").status_code == status


def test_every_runbook_is_on_one_page_where_links_find_it(viewer):
    html, said = viewer.get("/alarms/runbooks/"), viewer.text("/alarms/runbooks/")
    for key, book in RUNBOOKS.items():
        assert f'id="{key}"' in html and book.title in said and book.means in said


def test_the_overview_says_since_when_and_who_looks_after_it(viewer):
    forget()
    serving().refuse(4001)
    Watcher()(12)
    alarm = Alarm.objects.using(FACTS).get()
    forget()
    html = viewer.get("/", parts="attention")
    assert f'href="/alarms/{alarm.pk}/"' in html
    commands.acknowledge(alarm.pk, **WHO)
    forget()
    assert f"alarm {alarm.pk} anna looks after it" in viewer.text("/", parts="attention")


def test_events_of_alarms_lead_to_them(viewer):
    alarm = an_alarm()
    commands.acknowledge(alarm.pk, **WHO)
    html = viewer.get("/events/")
    assert f'href="/alarms/{alarm.pk}/"' in html and "alarm.acknowledged" in html


def test_alarms_can_be_taken_away_as_csv(viewer):
    an_alarm(what="=cmd() fails")
    an_alarm("prefill-b", resolved_at=time.time())
    text = viewer.get("/alarms.csv")
    header, first, second = text.splitlines()
    assert header.startswith("id,severity,status,state,instance,sentence,why,next,count,since")
    assert ",resolved," in first and ",open,down,prefill-a,prefill-a =cmd() fails," in second
    assert len(viewer.get("/alarms.csv?severity=warning").splitlines()) == 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/alarms/4711/", 404),
        ("/alarms/99999999999999999999999/", 404),
        ("/alarms/?severity=loud", 400),
        ("/alarms/?instance=a%20b", 400),
        ("/alarms/?before=x", 400),
        ("/alarms/?before=99999999999999999999", 400),
        ("/alarms.csv?severity=loud", 400),
    ],
)
def test_what_makes_no_sense_is_a_sentence(viewer, path, status):
    viewer.get(path, status=status)


def test_words_of_others_are_text(viewer):
    an_alarm(name="<b>x</b>", what="said <script>", why="'\"><i>")
    html = viewer.get("/alarms/")
    assert (
        "&lt;b&gt;x&lt;/b&gt;" in html and "<script>" not in html.replace("<script src", "") and "'\"><i>" not in html
    )


def test_the_number_of_queries_does_not_grow(viewer):
    def measured(path: str) -> int:
        with queries() as asked:
            viewer.get(path)
        return len(asked)

    alarm = an_alarm()
    a_notice(alarm)
    one = [measured("/alarms/"), measured(f"/alarms/{alarm.pk}/")]
    for number in range(100):
        more = an_alarm(f"prefill-{number}", key=f"k{number}", resolved_at=time.time() if number % 2 else None)
        a_notice(more), a_notice(alarm)
    assert one == [QUERIES_OF_THE_LIST, QUERIES_OF_ONE]
    assert [measured("/alarms/"), measured(f"/alarms/{alarm.pk}/")] == one
