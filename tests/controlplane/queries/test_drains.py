"""Drains as rows, and the number of queries that a look at all of them takes."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import drains, instances
from controlplane.databases import FACTS, READER
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Topology
from controlplane.models import Drain
from controlplane.probes.loads import Load, Loads
from controlplane.queries import drains as rows
from controlplane.queries.planning import plan
from controlplane.queries.witnesses import cases
from tests.controlplane.commands.draining import WHO, join
from tests.controlplane.queries.world import World


@pytest.fixture
def fleet(on_backend):
    for number in range(4):
        World(f"prefill-{number}").launch(Topology(1, 1, 1, 1), first_port=4000 + number)
    join()


def selects(work) -> int:
    with CaptureQueriesContext(connections[READER]) as captured:
        work()
    return sum("SELECT" in query["sql"] for query in captured)


def test_the_number_of_queries_does_not_grow_with_the_drains(fleet):
    now = time.time()
    drains.drain("prefill-0", **WHO)
    one = [
        selects(lambda: list(cases({}, now=now))),
        selects(rows.listing),
        selects(lambda: plan("prefill-0", now=now)),
    ]
    for number in range(1, 4):
        drains.drain(f"prefill-{number}", **WHO)
    assert [
        selects(lambda: list(cases({}, now=now))),
        selects(rows.listing),
        selects(lambda: plan("prefill-0", now=now)),
    ] == one
    assert one[1] == 4


def test_drains_are_listed_the_newest_first_and_filtered(fleet):
    first = drains.drain("prefill-0", **WHO).drain
    second = drains.drain("prefill-1", **WHO).drain
    drains.cancel("prefill-0", **WHO)
    assert [row.id for row in rows.listing()] == [second, first]
    assert [row.id for row in rows.listing(ended=False)] == [second]
    assert [row.id for row in rows.listing(ended=True)] == [first]
    assert [row.id for row in rows.listing(instance="prefill-0")] == [first]
    assert [row.id for row in rows.listing(before=second, limit=1)] == [first]
    assert rows.drain(first).ended_reason == "it is enabled again: a test"
    assert rows.newest_of("prefill-0", -1).id == first and rows.newest_of("prefill-0", 0) is None
    with pytest.raises(Refused, match="there is no drain 999"):
        rows.drain(999)


def test_a_drain_that_nobody_looks_at_says_so(fleet):
    number = drains.drain("prefill-0", **WHO).drain
    assert not any("Celery" in said for said in rows.told(rows.drain(number), now=time.time())), "it has only begun"
    told = rows.told(rows.drain(number), now=time.time() + 60)
    assert told[0].startswith(f"prefill-0 is draining (drain {number}, begun ")
    assert told[-1] == "Nobody has looked at it yet: is the Celery worker running?"
    Drain.objects.using(FACTS).update(checked_at=time.time() - 120)
    assert "for 2 min: is the Celery worker running?" in rows.told(rows.drain(number), now=time.time())[-1]


def test_a_word_of_another_launch_or_a_zero_of_a_gateway_that_left_is_not_heard(fleet):
    from controlplane.commands import gateways

    now = time.time()
    World("other").launch(Topology(1, 1, 1, 1), first_port=7000, token="launch-b")
    items = [{"instance": "other", "dp": 0, "open_rooms": 3, "age_seconds": 0.0}]
    gateways.report_open_rooms("gateway", "g1", items, now)
    gateways.report_open_rooms("worker", "old", [{**items[0], "launch_token": "launch-a"}], now)
    gateways.report_open_rooms("worker", "new", [{**items[0], "launch_token": "launch-b"}], now)
    drains.drain("other", **WHO)

    def sources() -> list[str]:
        (case,) = cases({"other": Loads((Load(0, now, "1", {"running": 0}),))}, now=now)
        return [reading.source for reading in case.seen.readings]

    assert sources() == ["", "g1", "new"]
    gateways.report_open_rooms("gateway", "g1", [{**items[0], "open_rooms": 0}], now + 1)
    gateways.leave("g1")
    assert sources() == ["", "new"]


def test_a_plan_of_what_cannot_be_drained_says_why(fleet):
    now = time.time()
    drains.drain("prefill-0", **WHO)
    assert plan("prefill-0", now=now).refused.startswith("it is draining already (drain ")
    instances.retire("prefill-1", **WHO)
    assert plan("prefill-1", now=now).refused == "prefill-1 is retired"
    with pytest.raises(Refused, match="dp1 does not exist"):
        plan("prefill-2", group=1, now=now)
    with pytest.raises(Refused, match="no instance is named ghost"):
        plan("ghost", now=now)
