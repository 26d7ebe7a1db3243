"""What needs a person, from real tables: a constant number of queries, and nothing of a fleet that is well."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import drains, gateways, instances, intent, routers
from controlplane.commands.transaction import record
from controlplane.databases import FACTS, READER
from controlplane.domain.alarms import key_of
from controlplane.domain.contact import Contact
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.append import NewEvent
from controlplane.models import Instance, Launch, Lease, Router, RouterMember
from controlplane.queries import attention, fleet, memo
from controlplane.queries.fleet import snapshot
from tests.controlplane.commands.alarming import an_alarm
from tests.controlplane.commands.draining import join
from tests.controlplane.queries.world import World

TP4 = Topology(1, 1, 4, 1)
QUERIES = 30


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    forget()
    return on_backend


def forget() -> None:
    memo.forget()
    attention.forget()


def told(*, now: float | None = None) -> dict[str, attention.Concern]:
    at = time.time() if now is None else now
    forget()
    with snapshot():
        found = attention.attention(attention.scene(now=at), now=at, limit=100)
    assert len(found.concerns) == found.total == sum(found.states.values())
    return {f"{one.state} {one.name}": one for one in found.concerns}


def serving(name: str = "prefill-a", topology: Topology = TP4, role: str = "prefill", first_port: int = 4000) -> World:
    world = World(name)
    url = f"http://10.0.0.1:{first_port + 30_000}"
    Instance.objects.using(FACTS).filter(pk=world.row.pk).update(role=role, engine_url=url)
    world.launch(topology, first_port=first_port)
    return world


def differ(name: str, page_size: int) -> None:
    launches = Launch.objects.using(FACTS).filter(instance_id=Instance.objects.using(FACTS).get(name=name).pk)
    for launch in launches:
        launch.facts = launch.facts.replace('"page_size":64', f'"page_size":{page_size}')
        launch.save(using=FACTS)


def test_a_fleet_that_is_as_it_is_wanted_has_nothing_for_anybody():
    serving()
    serving("decode-a", role="decode", first_port=5000)
    intent.cordon("prefill-a", actor="anna", reason="a look")
    assert told() == {}


def test_a_rank_that_died_is_told_with_its_host_its_reason_and_since_when():
    world = serving()
    world.refuse(4003)
    (concern,) = told().values()
    assert concern.what == "takes no requests: 1 of its 4 ranks is gone"
    assert concern.why.startswith("Missing dp0 tp3. dp0 tp3 left: ") and "refuses connections" in concern.why
    assert concern.next.startswith("Look at host 10.0.0.1")
    assert concern.since == pytest.approx(world.now, abs=1)


def test_who_is_gone_is_counted_however_few_are_named_and_who_left_an_older_launch_is_not():
    world = serving(topology=Topology(1, 1, 32, 1))
    world.refuse(*range(4000, 4020))
    (concern,) = told().values()
    assert concern.what == "takes no requests: 20 of its 32 ranks are gone"
    assert "dp0 tp0 and 19 more left: " in concern.why
    reason = fleet.instance("prefill-a", now=time.time())[0].health_reason
    assert reason.endswith("served and lost dp0 cp0 tp0 pp0, dp0 cp0 tp1 pp0, dp0 cp0 tp2 pp0 and 17 more")
    # Where the others were is not known here: they may have been on another host.
    assert concern.next.startswith("Look at their hosts")
    for tp in range(32):
        world.put(Slot(0, 0, tp, 0), Topology(1, 1, 32, 1), port=6000 + tp, token="second")
    world.probe(Contact.UP, *range(6000, 6032))
    world.end_flush()
    world.refuse(6007)
    (concern,) = told().values()
    assert (concern.what, concern.why.count("left")) == ("takes no requests: 1 of its 32 ranks is gone", 1)
    assert "dp0 tp7 left: " in concern.why and concern.next.startswith("Look at host 10.0.0.1")


def test_of_a_launch_that_nobody_is_left_of_no_more_are_counted_than_are_known():
    world = serving(topology=Topology(1, 1, 32, 1))
    world.refuse(*range(4000, 4032))
    (concern,) = (one for one in told().values() if one.name == "prefill-a")
    assert "dp0 tp0 and at least 15 more left: " in concern.why


def test_a_rank_that_hangs_leaves_doubt_and_the_time_of_it_is_that_of_the_last_probe_that_failed():
    world = serving()
    world.probe(Contact.SILENT, 4001, 4002)
    said = told()
    assert list(said) == ["degraded prefill-a"]
    assert said["degraded prefill-a"].since == pytest.approx(world.now, abs=1)


def test_a_launch_that_stops_filling_is_told_a_minute_after_its_newest_rank():
    world = World("prefill-a", ago=100.0)
    world.launch(TP4, first_port=4000, skip=1)
    (concern,) = told().values()
    assert (concern.name, concern.what) == ("prefill-a launch 1", "stopped filling at 3 of 4")
    assert concern.since == pytest.approx(world.now, abs=1)
    assert told(now=world.now + 59) == {}


def test_a_candidate_that_is_whole_and_waits_is_told():
    world = serving()
    for tp in range(4):
        world.put(Slot(0, 0, tp, 0), TP4, port=6000 + tp, token="second")
    world.probe(Contact.UP, *range(6000, 6004))
    assert list(told(now=world.now + 11)) == ["blocked prefill-a launch 2"]


def test_a_drain_and_the_silent_gateway_that_holds_it_up_are_told_together():
    serving()
    join("g1", lease=5.0)
    drains.drain("prefill-a", actor="anna", reason="new driver")
    later = time.time() + 30
    drains.check(later)
    Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=later)
    said = told(now=later)
    assert set(said) == {"blocked Drain of prefill-a", "silent Gateway g1"}
    assert said["silent Gateway g1"].why == "1 drain waits for it."
    assert said["blocked Drain of prefill-a"].next.startswith("Start g1 again")
    gateways.leave("g1", actor="anna", reason="gone")
    assert "silent Gateway g1" not in told(now=later)


def test_a_router_that_is_away_is_told_with_its_problem():
    serving()
    routers.add("r1", "http://127.0.0.1:29999", ["prefill-a"], actor="anna")
    Router.objects.using(FACTS).update(state="away", problem="it refuses connections")
    concern = told()["away Router r1"]
    assert concern.why == "It refuses connections."


def test_who_fits_nobody_is_told_and_a_mixed_fleet_in_which_everybody_fits_somebody_is_not():
    serving("prefill-a")
    serving("decode-a", role="decode", first_port=5000)
    serving("decode-b", role="decode", first_port=6000)
    differ("decode-b", 32)
    (concern,) = told().values()
    assert (concern.state, concern.name) == ("mismatch", "prefill-a × decode-b")
    assert concern.what == "cannot pair: page_size differs: prefill has 64, decode has 32"
    serving("prefill-b", first_port=7000)
    differ("prefill-b", 32)
    assert told() == {}


def test_a_router_that_may_put_two_together_that_cannot_work_is_told_all_the_same():
    for number, (name, role) in enumerate(
        [("p64", "prefill"), ("p32", "prefill"), ("d64", "decode"), ("d32", "decode")]
    ):
        serving(name, role=role, first_port=4000 + 1000 * number)
    differ("p32", 32)
    differ("d32", 32)
    assert told() == {}
    routers.add("r1", "http://127.0.0.1:29999", ["p64", "d32"], actor="anna")
    RouterMember.objects.using(FACTS).update(present=True)
    Router.objects.using(FACTS).update(state="in_step")
    (concern,) = told().values()
    assert (concern.state, concern.name) == ("incompatible", "p64 × d32")
    assert concern.what.startswith("may be put together by router r1: page_size differs")


def test_refusals_are_told_for_ten_minutes_and_one_instance_once():
    serving()
    for number in range(3):
        data = {"what": "PUT /route", "source": "10.0.0.9", "sentence": f"tp rank {number + 4} does not exist"}
        record(lambda data=data: (None, [NewEvent("registration.refused", "prefill-a", data)]))
    (concern,) = told().values()
    assert (concern.state, concern.what) == ("refused", "had 3 different registrations refused")
    assert "tp rank 6 does not exist" in concern.why
    later = time.time() + 601
    Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=later)
    assert told(now=later) == {}


def test_a_request_that_names_nobody_is_told_of_the_listener_that_many_share():
    serving()
    data = {"what": "PUT /route", "source": "10.0.0.9", "sentence": "2 instances share this listener (a, b): name one"}
    record(lambda: (None, [NewEvent("registration.refused", "", data)]))
    ((key, concern),) = told().items()
    assert key == "refused shared listener" and concern.what == "was asked without a name"
    assert "10.0.0.9: 2 instances share this listener" in concern.why


def test_without_a_leader_that_comes_first_and_what_was_known_stays():
    world = serving()
    world.refuse(4000)
    Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=time.time() - 60)
    assert list(told()) == ["away The bootstrap process", "down prefill-a"]


def test_an_instance_that_nobody_ever_started_is_told_a_minute_after_it_was_added():
    serving()
    instances.add("prefill-b", actor="anna")
    instances.add("decode-b", role="decode", actor="anna")
    assert told() == {}
    later = time.time() + 61
    Lease.objects.using(FACTS).filter(name="bootstrap").update(expires_at=later)
    assert list(told(now=later)) == ["missing prefill-b"]


@pytest.mark.parametrize("count", [1, 6])
def test_it_takes_as_many_queries_whatever_there_is_to_tell(count):
    for number in range(count):
        serving(f"prefill-{number}", first_port=4000 + 10 * number).refuse(4000 + 10 * number)
        drains.drain(f"prefill-{number}", actor="anna")
    forget()
    with CaptureQueriesContext(connections[READER]) as caught, snapshot():
        attention.scene(now=time.time())
    sent = [query for query in caught.captured_queries if not query["sql"].startswith(("BEGIN", "COMMIT", "ROLLBACK"))]
    assert len(sent) == QUERIES


def test_where_nobody_knows_since_when_it_is_so_it_is_since_it_was_seen():
    world = World("prefill-a")
    world.launch(TP4, first_port=4000, token="t")
    world.put(Slot(0, 0, 1, 0), TP4, port=4999, token="t")
    (concern,) = told().values()
    assert concern.state == "conflict" and concern.since is None
    an_alarm(key=key_of(concern), began_at=1234.0)
    (concern,) = told().values()
    assert concern.since == 1234.0
