"""Events are counted once each, whoever wrote them, and what they end is timed once, on both databases."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import DatabaseError

from controlplane.bootstrap import chronicle as module
from controlplane.bootstrap.chronicle import Chronicle
from controlplane.commands import drains
from controlplane.commands.transaction import record
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.append import NewEvent
from controlplane.models import Event, LedgerHead
from tests.controlplane.queries.world import World


def stored() -> Counter[str]:
    return Counter(Event.objects.using(FACTS).values_list("kind", flat=True))


def counted(one: Chronicle) -> Counter[str]:
    one.catch_up()
    return +one.kinds


def test_it_counts_what_is_committed_once_whoever_wrote_it(on_backend):
    one = Chronicle(0)
    assert one.catch_up() == 0 and counted(one) == Counter()
    world = World("prefill-a")
    ports = world.launch(Topology(2, 1, 2, 1), first_port=41_000)
    assert counted(one) == stored() and one.kinds["rank.registered"] == 4
    world.refuse(*ports[:1])
    record(lambda: (None, [NewEvent("token.made", data={"name": "ci"})]))
    assert counted(one) == stored() == counted(one), "and nothing twice"
    assert one.kinds["rank.left"] == 1 and one.kinds["token.made"] == 1


def test_kinds_that_never_happened_stand_at_zero():
    assert Chronicle(0).kinds["launch.dropped"] == 0 and "launch.dropped" in Chronicle(0).kinds


def test_it_catches_up_in_pieces_and_goes_on_the_next_time(on_backend, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 3)
    monkeypatch.setattr(module, "MOST_PIECES", 2)
    World("prefill-a").launch(Topology(4, 1, 4, 1), first_port=41_000)
    one = Chronicle(0)
    head = one.catch_up()
    assert one.revision == 6 and sum(one.kinds.values()) == 6 < head
    while one.revision < head:
        one.catch_up()
    assert +one.kinds == stored()


def test_a_launch_is_timed_from_its_first_rank_and_one_that_began_before_us_too(on_backend):
    world = World("prefill-a")
    world.launch(Topology(1, 1, 2, 1), first_port=41_000, skip=1)
    one = Chronicle(LedgerHead.objects.using(FACTS).get(id=1).revision)
    one.catch_up()
    world.now += 30
    world.launch(Topology(1, 1, 2, 1), first_port=41_000)
    one.catch_up()
    assert one.ready.count == 1 and one.ready.total == pytest.approx(30, abs=1)


def test_an_outage_is_timed_when_it_is_over(on_backend):
    world = World("prefill-a")
    ports = world.launch(Topology(1, 1, 2, 1), first_port=41_000)
    one = Chronicle(0)
    one.catch_up()
    assert one.unhealthy.count == 0
    world.refuse(ports[0])
    one.catch_up()
    world.now += 20
    world.launch(Topology(1, 1, 2, 1), first_port=41_000)
    world.end_flush()
    one.catch_up()
    assert one.unhealthy.count == 1 and one.unhealthy.total == pytest.approx(20, abs=1)


def test_a_drain_is_timed_by_how_it_ended(on_backend):
    World("prefill-a").launch(Topology(2, 1, 1, 1), first_port=41_000)
    one = Chronicle(0)
    drains.drain("prefill-a", actor="ann", reason="test")
    one.catch_up()
    drains.cancel("prefill-a", actor="ann", reason="test")
    one.catch_up()
    assert {how: took.count for how, took in one.drains.items()} == {"drained": 0, "forced": 0, "cancelled": 1}


def test_a_restored_backup_is_followed_from_where_it_ends(on_backend):
    World("prefill-a").launch(Topology(2, 1, 2, 1), first_port=41_000)
    one = Chronicle(0)
    before = counted(one)
    LedgerHead.objects.using(FACTS).filter(id=1).update(revision=2)
    Event.objects.using(FACTS).filter(revision__gt=2).delete()
    assert one.catch_up() == 2 and counted(one) == before, "a counter never goes back"
    record(lambda: (None, [NewEvent("token.made", data={"name": "ci"})]))
    assert counted(one) == before + Counter({"token.made": 1})


def test_a_read_that_fails_in_the_middle_counts_nothing_twice(on_backend, monkeypatch):
    World("prefill-a").launch(Topology(2, 1, 2, 1), first_port=41_000)
    one, rows, failures = Chronicle(0), module.rows, [DatabaseError("away")]

    def failing(sql: str, *values: object) -> object:
        if sql is module.TOLD and failures:
            raise failures.pop()
        return rows(sql, *values)

    monkeypatch.setattr(module, "rows", failing)
    with pytest.raises(DatabaseError):
        one.catch_up()
    assert counted(one) == stored()
