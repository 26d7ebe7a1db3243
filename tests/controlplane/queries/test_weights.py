"""Who publishes weights, how many of its ranks, and which claims stand in conflict."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.databases import FACTS, READER
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.models import EngineBody, EngineInfo, Instance
from controlplane.queries import sessions, weights
from tests.controlplane.queries.world import World

NOW = time.time()


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def seed(name: str, role: str = "seed") -> Instance:
    return Instance.objects.using(FACTS).create(name=name, role=role, created_at=NOW)


def publish(instance: int, rank: int, *, epoch: int = 1, state: str = "live", **more) -> None:
    given = {
        "session": f"10.0.0.1:{17000 + rank}",
        "digest": "d" * 64,
        "tensors": 10,
        "total_bytes": 1000,
        "at": NOW - rank,
        **more,
    }
    EngineInfo.objects.using(FACTS).create(instance_id=instance, rank=rank, epoch=epoch, state=state, **given)


def test_ranks_are_counted_against_what_the_launch_says_else_against_the_highest():
    alone = seed("alone").pk
    for rank in (0, 1, 3):
        publish(alone, rank)
    launched = World("launched")
    launched.launch(Topology(1, 1, 4, 1), first_port=4000)
    for rank in (1, 2, 7):
        publish(launched.row.pk, rank)
    seed("silent")
    found = {row.name: row for row in weights.published().rows}
    assert found["alone"].coverage.sentence == "3 of at least 4 ranks, missing 2"
    assert found["launched"].coverage.sentence == "2 of 4 ranks, missing 0, 3"
    assert found["launched"].coverage.beyond == 1
    assert (found["silent"].coverage, found["silent"].state) == (None, "nothing")
    assert (found["alone"].sessions, found["alone"].tensors, found["alone"].total_bytes) == (3, 30, 3000)
    assert (found["alone"].bodies, found["alone"].first_at, found["alone"].last_at) == (1, NOW - 3, NOW)


def test_prefills_that_publish_nothing_and_the_retired_are_left_out():
    seed("p", "prefill")
    gone = seed("gone")
    Instance.objects.using(FACTS).filter(pk=gone.pk).update(intent="retired")
    assert weights.published().rows == ()
    publish(gone.pk, 0)
    assert [row.name for row in weights.published().rows] == ["gone"]
    assert weights.of_instance("p").state == "nothing"
    with pytest.raises(Refused, match="no instance is named x"):
        weights.of_instance("x")


def test_lists_are_filtered_paged_and_counted():
    for name in ("s1", "s2", "s3"):
        publish(seed(name).pk, 0)
    publish(Instance.objects.get(name="s2").pk, 2)
    publish(Instance.objects.get(name="s3").pk, 0, epoch=2, state="conflict", session="evil:1")
    first = weights.published(limit=2)
    assert ([row.name for row in first.rows], first.next, first.total) == (["s1", "s2"], "s2", 3)
    assert [row.name for row in weights.published(limit=2, after="s2").rows] == ["s3"]
    assert (first.instances, first.incomplete, first.sessions, first.conflicts) == (3, 1, 4, 1)
    assert [row.name for row in weights.published(only="incomplete").rows] == ["s2"]
    assert [row.name for row in weights.published(only="conflict").rows] == ["s3"]
    assert [row.name for row in weights.published(text="S1").rows] == ["s1"]
    with pytest.raises(Refused, match="only must be"):
        weights.published(only="nonsense")


def test_sizes_that_no_number_of_64_bits_holds_are_added_all_the_same():
    huge = seed("huge").pk
    for rank in range(4):
        publish(huge, rank, total_bytes=2**63 - 1)
    assert weights.published().total_bytes == pytest.approx(4 * 2**63, rel=1e-6)


def test_a_conflict_is_told_with_the_session_that_holds_the_rank():
    one = seed("one").pk
    publish(one, 0, session="a:1")
    publish(one, 0, epoch=2, state="conflict", session="b:1", old_style=True, digest="e" * 64)
    publish(seed("two").pk, 5, epoch=3, state="conflict", session="c:1")
    first, second = weights.clashes()
    assert (first.instance, first.rank, first.epoch, first.held_epoch) == ("one", 0, 2, 1)
    assert (first.clash.claimant, first.clash.holder, first.clash.old_style, first.clash.same) == (
        "b:1",
        "a:1",
        True,
        False,
    )
    assert (second.instance, second.clash.holder) == ("two", None)
    assert [row.instance for row in weights.clashes(instance="two")] == ["two"]
    assert len(weights.clashes(limit=1)) == 1


def test_sessions_are_paged_by_rank_with_conflicts_beside_and_those_that_ended_by_time():
    one = seed("one").pk
    for rank in range(5):
        publish(one, rank, epoch=1, state="retired", ended_at=NOW, ended_reason="over")
        publish(one, rank, epoch=2)
    publish(one, 1, epoch=3, state="conflict")
    seen, after = [], ""
    while True:
        page = sessions.present(one, after=after, limit=2)
        seen += [(row.rank, row.epoch) for row in page.rows]
        after = page.next
        if not after:
            break
    assert seen == [(0, 2), (1, 2), (1, 3), (2, 2), (3, 2), (4, 2)]
    ended = sessions.ended(one, limit=3)
    assert [row.rank for row in ended.rows] == [4, 3, 2]
    assert [row.rank for row in sessions.ended(one, after=ended.next).rows] == [1, 0]
    for ask in (sessions.present, sessions.ended):
        with pytest.raises(Refused):
            ask(one, after="nonsense")


def test_one_session_and_its_dictionary():
    one = seed("one").pk
    publish(one, 0)
    publish(one, 1)
    EngineBody.objects.using(FACTS).create(digest="d" * 64, compressed=b"packed", size_bytes=7)
    assert sessions.session(one, 0, 1).session == "10.0.0.1:17000"
    assert sessions.stored("d" * 64) == (b"packed", 7) and sessions.stored("gone") is None
    assert sessions.sharing(one, "d" * 64) == 2
    with pytest.raises(Refused, match="no session of rank 0 has epoch 9"):
        sessions.session(one, 0, 9)


def test_the_number_of_queries_does_not_grow_with_instances_or_ranks():
    def selects() -> int:
        with CaptureQueriesContext(connections[READER]) as captured:
            weights.published()
        return sum("SELECT" in query["sql"] for query in captured)

    assert selects() == 3
    for number in range(4):
        made = seed(f"s{number}").pk
        for rank in range(0, 20, 2):
            publish(made, rank)
    assert selects() == 3
