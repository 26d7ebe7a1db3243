"""The past over the API: what is kept, what is stale, the archive, purges, rooms that came back, and what is gone."""

import time

import pytest

from controlplane.commands import archiving, compaction, instances
from controlplane.databases import FACTS, TRAFFIC
from controlplane.domain.topology import Topology
from controlplane.ledger import tail
from controlplane.models import Attempt, Event, Instance, Request, RoomReuse, StoredState
from tests.controlplane.queries.world import World

PAIR = Topology(1, 1, 2, 1)
DAY = 86_400.0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def restarted(name: str = "a") -> World:
    """Three launches; the last one lives."""
    world = World(name)
    for number in range(3):
        ports = world.launch(PAIR, first_port=2000 + 10 * number, token=f"t{number}")
        if number < 2:
            world.refuse(*ports)
    return world


def test_the_archive_is_told_a_page_at_a_time_with_ranks_and_successors(viewer):
    restarted(), restarted("b")
    archiving.archive_ended(now=time.time() + 2 * DAY)
    page = viewer.get("archive", {"instance": "a", "limit": 1})
    assert page.status == 200, page
    (two,) = page.json["items"]
    assert (two["instance"], two["number"], two["replaced_by"], two["topology"]) == ("a", 2, 3, [1, 1, 2, 1])
    assert two["ranks"][1]["slot"] == "dp0.cp0.tp1.pp0" and two["ranks"][1]["left_reason"]
    (one,) = viewer.get("archive", {"instance": "a", "limit": 1, "cursor": page.json["next"]}).json["items"]
    assert (one["number"], one["replaced_by"]) == (1, 2)
    assert len(viewer.get("archive").json["items"]) == 4
    told = viewer.get("instances/a/launches").json["items"]
    assert [launch["number"] for launch in told] == [3, 2, 1]


def test_what_is_stale_is_told_with_what_a_purge_would_need(viewer):
    restarted()
    instances.add("gone", actor="anna")
    instances.retire("gone", actor="anna", reason="rack returned")
    told = viewer.get("stale")
    assert told.status == 200, told
    (row,) = told.json["items"]
    assert (row["instance"], row["what"], row["reason"], row["alive"]) == (
        "gone", "retired", "retired by anna: rack returned", "",
    )  # fmt: skip
    assert told.json["launches"]["waiting"] == 2
    assert viewer.get("stale", {"older_than_seconds": 3600}).json["items"] == []
    assert viewer.get("stale", {"older_than_seconds": -1}).status == 400


def test_a_purge_is_rehearsed_then_asked_for_and_audited(operator):
    instances.add("gone", actor="anna")
    instances.retire("gone", actor="anna")
    before = tail.head()
    plan = operator.post("instances/gone/purge", {"reason": "x"}, query={"dry_run": "true"})
    assert (plan.status, plan.json["dry_run"], plan.json["operation"], plan.json["alive"]) == (200, True, None, ""), (
        plan
    )
    assert any("stay in the archive" in sentence for sentence in plan.json["sentences"])
    assert tail.head() == before and not Request.objects.using(FACTS).exists()
    done = operator.post("instances/gone/purge", {"reason": "rack returned"})
    assert done.status == 202, done
    assert done.headers["Location"] == f"/api/v1/operations/{done.json['operation']}"
    operation = operator.get(f"operations/{done.json['operation']}").json
    assert (operation["action"], operation["state"], operation["reason"]) == ("purge", "running", "rack returned")
    kept = Attempt.objects.using(FACTS).filter(action="instance.purge", status=202).get()
    assert (kept.target, kept.reason, kept.allowed) == ("gone", "rack returned", True)


def test_who_lives_is_refused_and_only_an_administrator_overrides_that(operator, admin):
    restarted()
    refused = operator.post("instances/a/purge", {"reason": "x"})
    assert (refused.status, refused.code) == (409, "conflict")
    assert "a is not retired: retire it first, or override" in refused.json["detail"]
    denied = operator.post("instances/a/purge", {"override": True})
    assert denied.status == 403 and Instance.objects.using(FACTS).get(name="a").intent == "enabled"
    done = admin.post("instances/a/purge", {"override": True, "reason": "split brain"})
    assert done.status == 202, done
    assert Request.objects.using(FACTS).get(kind="purge").override
    assert operator.post("instances/ghost/purge", {}).status == 404
    assert operator.post("instances/a/purge", {"override": "yes"}).status == 400
    stale = operator.post("instances/a/purge", {}, HTTP_IF_MATCH='"77"')
    assert stale.status in (409, 412)


def test_the_archive_is_purged_by_administrators_and_rehearsed_first(operator, admin):
    restarted()
    archiving.archive_ended(now=time.time() + 2 * DAY)
    body = {"older_than_seconds": 0, "instance": "a", "reason": "x"}
    assert operator.post("archive/purge", body).status == 403
    plan = admin.post("archive/purge", body, query={"dry_run": "true"})
    assert (plan.status, plan.json["count"], plan.json["dry_run"]) == (200, 2, True), plan
    assert len(admin.get("archive").json["items"]) == 2
    assert admin.post("archive/purge", body).json["count"] == 2
    assert admin.get("archive").json["items"] == []
    assert admin.post("archive/purge", {"instance": "a"}).status == 400


def test_what_is_kept_is_told_and_what_is_gone_is_410(viewer):
    restarted()
    head = tail.head()
    assert viewer.get("retention").json["first"] == 1
    compaction.store_state(now=time.time())
    old = time.time() - 100 * DAY
    Event.objects.using(FACTS).filter(revision=head.revision).update(at=old + 2)
    StoredState.objects.using(FACTS).update(at=old + 2)
    compaction.compact(now=time.time())
    told = viewer.get("retention")
    assert told.status == 200, told
    assert (told.json["head"], told.json["first"], told.json["stored"]) == (head.revision,) * 3
    kept = {row["subject"]: row for row in told.json["items"]}
    assert kept["events"]["total"] == kept["events"]["gone"] == head.revision - 1
    assert (kept["events"]["kept_seconds"], kept["events"]["setting"]) == (90 * DAY, "PDCP_KEEP_EVENTS_DAYS")
    for path, query in (
        ("events", {"after": f"{head.ledger_id}:2"}),
        ("fleet", {"as_of": f"{head.ledger_id}:2"}),
        ("fleet", {"as_of": "2020-01-01T00:00:00Z"}),
        ("events", {"as_of": "2020-01-01T00:00:00Z"}),
    ):
        gone = viewer.get(path, query)
        assert (gone.status, gone.code) == (410, "cursor_gone"), (path, query, gone)
    now = viewer.get("fleet", {"as_of": f"{head.ledger_id}:{head.revision}"})
    assert now.json["state"] == viewer.get("fleet").json["state"]
    assert viewer.get("events", {"after": f"{head.ledger_id}:{head.revision}"}).json["items"] == []


def test_rooms_that_came_back_are_told(viewer):
    world = World("a")
    for dp in (0, 3):
        RoomReuse.objects.using(TRAFFIC).create(
            instance_id=world.row.pk, room=2**62, before=0, after=dp, over="expired", expired_at=5.0, at=6.0
        )
    told = viewer.get("reuses", {"instance": "a", "limit": 1})
    assert told.status == 200, told
    (row,) = told.json["items"]
    assert (row["room"], row["instance"], row["reuse"]["after"], row["reuse"]["late"]) == (str(2**62), "a", 3, False)
    (row,) = viewer.get("reuses", {"room": str(2**62), "cursor": told.json["next"]}).json["items"]
    assert row["reuse"]["late"]
    assert viewer.get("reuses", {"instance": "ghost"}).status == 404
