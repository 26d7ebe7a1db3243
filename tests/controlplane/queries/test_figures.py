"""What `/metrics/fleet` tells is what the tables hold; and of what is gone it tells nothing."""

from __future__ import annotations

import time

from controlplane.commands import drains, instances
from controlplane.databases import FACTS
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import head
from controlplane.models import (
    Alarm,
    AlarmNotice,
    Breaker,
    EngineHealth,
    Gateway,
    Instance,
    Request,
    TaskRound,
    Trimmed,
    WorkerLease,
)
from controlplane.queries import attention, figures, memo, own_figures
from tests.controlplane.metrics.scraping import Scrape
from tests.controlplane.queries.world import World

ROWS = {"kind": "instance", "name": "x", "what": "x", "next": "x", "step": "x", "to_kind": "instance"}


def scrape(*, now: float | None = None) -> Scrape:
    memo.forget()
    attention.forget()
    at = time.time() if now is None else now
    return Scrape.here([*figures.fleet(now=at), *own_figures.tasks(now=at), *own_figures.told(now=at)])


def test_instances_and_ranks_are_told_by_what_is_wanted_and_seen_of_them(on_backend):
    World("whole").launch(Topology(2, 1, 2, 1), first_port=41_000)
    World("filling").launch(Topology(1, 1, 2, 1), first_port=42_000, skip=1)
    World("gone")
    instances.retire("gone", actor="ann", reason="test")
    said = scrape()
    assert said.value("pdcp_instances", role="prefill", intent="enabled") == 2
    assert said.value("pdcp_instances", role="prefill", intent="retired") == 1
    assert said.value("pdcp_instances_seen", role="prefill", state="up") == 1
    assert said.value("pdcp_instances_seen", role="prefill", state="filling") == 1
    assert said.value("pdcp_instances_routable", role="prefill") == 1
    assert said.value("pdcp_instances_unroutable", role="prefill", fact="registration") == 1
    assert said.value("pdcp_instance_routable", pd_instance="whole", role="prefill") == 1
    assert said.value("pdcp_instance_routable", pd_instance="filling", role="prefill") == 0
    assert said.value("pdcp_ranks", state="expected") == 6 and said.value("pdcp_ranks", state="routable") == 4
    assert said.value("pdcp_dp_groups", state="known") == 3 and said.value("pdcp_dp_groups", state="serving") == 2
    assert said.value("pdcp_leader_seen") == 1
    assert said.value("pdcp_ledger_head_revision") == head().revision
    assert 'pd_instance="gone"' not in said.text


def test_a_retired_instance_has_no_series_and_late_word_brings_none_back(on_backend):
    world = World("prefill-a")
    ports = world.launch(Topology(1, 1, 1, 1), first_port=41_000)
    assert 'pd_instance="prefill-a"' in scrape().text
    instances.retire("prefill-a", actor="ann", reason="test")
    assert 'pd_instance="prefill-a"' not in scrape().text
    world.probe(Contact.UP, *ports)
    said = scrape()
    assert 'pd_instance="prefill-a"' not in said.text
    assert said.value("pdcp_ranks", state="expected") == 0


def test_an_engine_is_told_as_long_as_it_is_asked_and_a_late_answer_of_one_that_is_gone_is_not(on_backend):
    now = time.time()
    for name, state in (("well", "up"), ("busy", "late"), ("ill", "down"), ("new", "unknown"), ("old", "up")):
        url = f"http://10.0.0.7:3000{len(name)}"
        instances.add(name, engine_url=url, actor="ann")
        EngineHealth.objects.using(FACTS).create(
            instance_id=Instance.objects.using(FACTS).get(name=name).pk,
            at=url,
            state=state,
            since=now - 500,
            asked_at=now - (500 if name == "old" else 1),
            took=0.25,
        )
    said = scrape(now=now)
    assert said.series("pdcp_instance_engine_up") == {
        (("pd_instance", "well"),): 1,
        (("pd_instance", "busy"),): 1,
        (("pd_instance", "ill"),): 0,
    }
    assert said.value("pdcp_engines", state="up") == 2 and said.value("pdcp_engines", state="down") == 1
    assert said.value("pdcp_instance_engine_answer_seconds", pd_instance="well") == 0.25
    instances.retire("well", actor="ann", reason="test")
    EngineHealth.objects.using(FACTS).update(asked_at=now, took=0.5)
    said = scrape(now=now)
    assert 'pd_instance="well"' not in said.text and said.value("pdcp_engines", state="up") == 1


def test_drains_are_told_with_their_age_until_they_end(on_backend):
    World("prefill-a").launch(Topology(2, 1, 1, 1), first_port=41_000)
    drains.drain("prefill-a", actor="ann", reason="test")
    now = time.time()
    said = scrape(now=now + 60)
    assert said.value("pdcp_drains", progress="waiting") == 1
    age = said.value("pdcp_drain_age_seconds", pd_instance="prefill-a", dp="all", progress="waiting")
    assert 59 <= age <= 75
    assert said.value("pdcp_instances", role="prefill", intent="draining") == 1
    assert said.value("pdcp_instances_unroutable", role="prefill", fact="intent") == 1
    drains.cancel("prefill-a", actor="ann", reason="test")
    said = scrape()
    assert said.value("pdcp_drains", progress="waiting") == 0 and not said.series("pdcp_drain_age_seconds")


def test_gateways_are_live_or_silent_and_only_the_live_can_be_behind(on_backend):
    World("prefill-a").launch(Topology(2, 1, 1, 1), first_port=41_000)
    now, at = time.time(), head()
    common = {"registered_at": now, "acknowledged_ledger": at.ledger_id}
    make = Gateway.objects.using(FACTS).create
    make(name="level", seen_at=now, acknowledged_revision=at.revision, **common)
    make(name="behind", seen_at=now, acknowledged_revision=at.revision - 3, **common)
    make(name="silent", seen_at=now - 100, acknowledged_revision=1, **common)
    make(name="left", seen_at=now, acknowledged_revision=1, left_at=now, **common)
    make(name="elsewhere", seen_at=now, acknowledged_revision=1, registered_at=now, acknowledged_ledger="another")
    for gateway, state in (("level", "open"), ("silent", "half_open"), ("left", "open")):
        Breaker.objects.using(FACTS).create(
            gateway=gateway, instance="prefill-a", state=state, since=now, reported_at=now
        )
    said = scrape(now=now)
    assert said.value("pdcp_gateways", state="live") == 3 and said.value("pdcp_gateways", state="silent") == 1
    assert said.series("pdcp_gateway_behind_revisions") == {
        (("gateway", "level"),): 0,
        (("gateway", "behind"),): 3,
        (("gateway", "elsewhere"),): at.revision,
    }
    assert said.value("pdcp_breakers", state="open") == 1 and said.value("pdcp_breakers", state="half_open") == 1


def test_what_operators_asked_for_is_told_until_it_is_answered(on_backend):
    now = time.time()
    assert scrape().value("pdcp_request_oldest_seconds") == 0
    Request.objects.using(FACTS).create(kind="evict", instance="p", actor="ann", made_at=now - 40)
    Request.objects.using(FACTS).create(kind="evict", instance="p", actor="ann", made_at=now - 90, answered_at=now)
    said = scrape(now=now)
    assert said.value("pdcp_requests_open") == 1 and said.value("pdcp_request_oldest_seconds") == 40


def test_worker_leases_are_live_or_late(on_backend):
    now = time.time()
    make = WorkerLease.objects.using(FACTS).create
    make(worker="a", instance_id=1, seen_at=now, expires_at=now + 10)
    make(worker="b", instance_id=1, seen_at=now - 50, expires_at=now - 40, late_since=now - 40)
    said = scrape(now=now)
    assert said.value("pdcp_worker_leases", state="live") == said.value("pdcp_worker_leases", state="late") == 1


def test_every_scheduled_task_is_told_also_one_that_never_ran(on_backend):
    now = time.time()
    TaskRound.objects.using("traffic").all().delete()
    TaskRound.objects.using("traffic").create(
        task="check_drains",
        every_seconds=1.0,
        within_seconds=10.0,
        number=7,
        done=7,
        began_at=now - 91,
        ended_at=now - 90,
        took_seconds=0.25,
        outcome="failed",
        failures=3,
        ok_at=now - 120,
    )
    said = scrape(now=now)
    task = {"task": "check_drains"}
    assert said.value("pdcp_task_rounds_total", **task) == 7
    assert said.value("pdcp_task_late_seconds", **task) == 90
    assert said.value("pdcp_task_took_seconds", **task) == 0.25
    assert said.value("pdcp_task_failures", **task) == 3
    assert said.value("pdcp_task_ok_age_seconds", **task) == 120
    assert said.value("pdcp_task_rounds_total", task="trim_expired_rooms") == 0
    assert said.get("pdcp_task_took_seconds", task="trim_expired_rooms") is None


def test_what_was_trimmed_is_told_by_what_it_was(on_backend):
    Trimmed.objects.using(FACTS).create(subject="events", at=time.time(), count=3, total=40)
    assert Scrape.here(own_figures.trimmed()).series("pdcp_trimmed_rows_total") == {(("subject", "events"),): 40}


def test_alarms_and_the_messages_about_them(on_backend):
    now = time.time()
    make = Alarm.objects.using(FACTS).create
    make(key="a", severity="critical", state="down", began_at=now, raised_at=now, **ROWS)
    make(key="b", severity="critical", state="down", began_at=now, raised_at=now, acknowledged_at=now, **ROWS)
    make(key="c", severity="warning", state="down", began_at=now, raised_at=now, resolved_at=now, **ROWS)
    make(key="d", severity="warning", state="down", began_at=now, **ROWS)
    for number, (state, age) in enumerate((("waiting", 50), ("waiting", 20), ("delivered", 400))):
        AlarmNotice.objects.using(FACTS).create(
            notice=str(number), alarm_id=1, kind="raised", body="{}", made_at=now - age, due_at=now, state=state
        )
    said = scrape(now=now)
    assert said.value("pdcp_alarms", severity="critical", acknowledged="no") == 1
    assert said.value("pdcp_alarms", severity="critical", acknowledged="yes") == 1
    assert said.value("pdcp_alarms", severity="warning", acknowledged="no") == 0
    assert said.value("pdcp_alarm_notices", state="waiting") == 2
    assert said.value("pdcp_alarm_notices", state="delivered") == 1
    assert said.value("pdcp_alarm_notice_oldest_seconds") == 50
