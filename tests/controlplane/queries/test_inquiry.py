"""Why an instance does not work, in the order in which an operator asks: from real tables, on both kinds of database."""

import time

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.commands import gateways, instances, intent
from controlplane.commands.keeping_health import Change, keep
from controlplane.commands.transaction import record
from controlplane.databases import FACTS, READER
from controlplane.domain.contact import Contact
from controlplane.domain.engine_health import Answer, Heard, Memory, Rule, hear
from controlplane.domain.inquiry import KEYS
from controlplane.domain.questions import Inquiry
from controlplane.domain.topology import Slot, Topology
from controlplane.ledger.append import NewEvent
from controlplane.models import EngineInfo, Instance, Lease, Router, RouterMember
from controlplane.queries.inquiry import LISTENER, inquire
from tests.controlplane.queries.world import World

INQUIRY_QUERIES = 25
TP2 = Topology(1, 1, 2, 1)
WHO = {"actor": "anna", "reason": "a test"}


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def asked(name: str = "prefill-a", now: float | None = None) -> Inquiry:
    return inquire(name, now=time.time() if now is None else now)


def engine(name: str, *heard: Heard, url: str = "http://10.0.0.1:30000") -> None:
    """An engine that was asked just now, and answered so."""
    Instance.objects.using(FACTS).filter(name=name).update(engine_url=url)
    known = Memory(url)
    for one in heard:
        known = hear(known, one, Rule(), time.time())
    keep([Change(Instance.objects.using(FACTS).get(name=name).pk, name, Memory(), known, 0)])


def router(name: str, instance: str, *, present: bool = True, healthy: bool | None = None, **values) -> None:
    row = Router.objects.using(FACTS).create(
        **{"name": name, "url": f"http://{name}:1", "created_at": 1.0, "actor": "anna", "checked_at": time.time()}
        | values
    )
    RouterMember.objects.using(FACTS).create(router_id=row.pk, instance=instance, present=present, healthy=healthy)


def no(found: Inquiry) -> list[tuple[str, str]]:
    return [(answer.key, answer.code) for answer in found.causes]


def test_of_a_healthy_instance_nothing_is_claimed_that_nobody_saw():
    World().launch(TP2, first_port=4000)
    found = asked()
    assert [answer.key for answer in found.answers] == list(KEYS)
    assert {answer.key: answer.verdict.value for answer in found.answers} == {
        "directory": "yes",
        "port": "yes",
        "tenant": "yes",
        "registered": "yes",
        "answering": "yes",
        "engine": "not_observed",
        "wanted": "yes",
        "proxy": "not_observed",
        "router": "not_observed",
        "breaker": "not_observed",
        "policy": "not_observed",
        "health": "not_observed",
        "pairs": "not_observed",
    }
    assert found.outcome.code == "well" and "6 of 13 questions" in found.outcome.sentence


def test_all_that_was_seen_is_said_with_its_age():
    World().launch(TP2, first_port=4000)
    engine("prefill-a", Heard(Answer.WELL, 200, load={"running": 2, "waiting": 0}, identity="x", said={}))
    router("r", "prefill-a", healthy=True, breakers_at=time.time())
    gateways.join("g")
    found = asked()
    seen = {answer.key: answer for answer in found.answers if answer.verdict.value == "yes"}
    assert set(KEYS) - set(seen) == {"pairs"}
    for key in ("directory", "registered", "answering", "engine", "proxy", "router", "breaker", "policy", "health"):
        assert time.time() - 70 < seen[key].at <= time.time(), key
    assert "2 running, 0 waiting" in seen["policy"].sentence
    assert "router r takes it for well" in seen["health"].sentence


def test_a_dead_rank_is_the_cause_and_what_came_of_it_is_not():
    world = World(ago=5)
    ports = world.launch(TP2, first_port=4000)
    engine("prefill-a", *[Heard(Answer.WELL, 200), *[Heard(Answer.REFUSED, error="it refused the connection")] * 3])
    world.refuse(ports[1])
    found = asked()
    assert no(found) == [("registered", "dead")]
    assert "dp0 tp1 at 10.0.0.1:4001 is gone" in found.outcome.sentence and found.outcome.next
    assert found["engine"].follows == "registered" and found["health"].follows == "registered"


def test_seeds_of_weights_leave_it_clear_whose_ranks_are_meant():
    World().launch(TP2, first_port=4000)
    instances.add("seed-a", role="seed", **WHO)
    assert asked()["tenant"].code == "only"
    instances.add("named-a", **WHO)
    assert asked()["tenant"].code == "named"
    # It came by its weights, and has no rank.
    pk = Instance.objects.using(FACTS).get(name="named-a").pk
    published = {
        "rank": 0,
        "epoch": 1,
        "session": "10.0.0.2:1",
        "digest": "d",
        "tensors": 1,
        "total_bytes": 1,
        "at": 1.0,
    }
    EngineInfo.objects.using(FACTS).create(instance_id=pk, state="retired", **published)
    assert asked()["tenant"].code == "only"


def test_a_rank_that_was_refused_says_why():
    world = World(ago=5)
    world.launch(TP2, first_port=4000, skip=1)
    heartbeat = {"what": "POST /pd/v1/heartbeats", "source": "10.0.0.9", "sentence": "lease_seconds is missing"}
    record(lambda: (None, [NewEvent("registration.refused", "prefill-a", heartbeat)]))
    assert no(asked()) == [("registered", "never")]
    data = {"what": "PUT /route", "source": "10.0.0.9", "sentence": "page_size is 64 here and 16 there."}
    record(lambda: (None, [NewEvent("registration.refused", "prefill-a", data)]))
    found = asked()
    assert no(found) == [("registered", "refused")]
    assert "10.0.0.9 was refused: page_size is 64 here and 16 there" in found.outcome.sentence
    assert asked(now=time.time() + 700)["registered"].code == "never", "an old refusal explains nothing"


@pytest.mark.parametrize(
    ("contact", "code"),
    [(Contact.SILENT, "silent"), (Contact.UNREACHED, "partition"), (Contact.STRANGER, "stale")],
)
def test_each_way_not_to_answer_has_its_word(contact, code):
    world = World(ago=5)
    ports = world.launch(TP2, first_port=4000)
    for _ in range(3):
        world.now += 1
        world.probe(contact, *ports)
    assert no(asked()) == [("answering", code)]


def test_a_rank_that_refuses_and_never_greeted_is_said_to_refuse_and_not_to_be_gone():
    world = World(ago=5)
    for place, slot in enumerate(TP2.slots()):
        world.put(slot, TP2, port=4000 + place)
    # Nobody can be reached, so that it is taken for whole after a while; then one of them refuses.
    world.probe(Contact.UNREACHED, 4000, 4001)
    world.now += 1
    world.probe(Contact.UP, 4000)
    world.refuse(4001)
    found = asked()
    assert no(found) == [("answering", "refusing")] and found["registered"].verdict.value == "yes"
    assert "10.0.0.1:4001 refuses connections from here" in found.outcome.sentence


def test_a_port_that_we_could_not_open_is_said_until_we_could():
    instances.add("p", own_port=18_500, actor="anna")
    all_lead()
    for kind, data in (("listener.failed", {"port": 18_500, "why": "another process listens there"}),):
        record(lambda kind=kind, data=data: (None, [NewEvent(kind, "p", data)]))
    found = asked("p")
    assert no(found) == [("port", "taken")] and found["registered"].follows == "port"
    assert "18500" in found.outcome.next
    record(lambda: (None, [NewEvent("listener.opened", "p", {"port": 18_500})]))
    assert no(asked("p")) == [("registered", "nobody")]


def test_that_a_port_was_never_told_of_is_found_out_without_reading_an_instances_whole_ledger():
    with connections[FACTS].cursor() as cursor:
        cursor.execute("SELECT COALESCE(MAX(revision), 0) FROM controlplane_event")
        (last,) = cursor.fetchone()
        rows = [(last + n, 1.0, "rank.probed", "p", "", "", "{}") for n in range(1, 3001)]
        cursor.executemany("INSERT INTO controlplane_event VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)
        cursor.execute("ANALYZE controlplane_event")
        how = "EXPLAIN QUERY PLAN" if connections[FACTS].vendor == "sqlite" else "EXPLAIN"
        cursor.execute(f"{how} {LISTENER}", ["p"])
        assert "event_of_listener" in str(cursor.fetchall())


def all_lead() -> None:
    Lease.objects.using(FACTS).filter(name="bootstrap").update(token=1, holder="test pid 1", expires_at=time.time())


def test_whoever_holds_the_engines_own_bootstrap_port_is_known_by_its_answers():
    World().launch(TP2, first_port=4000)
    told = Heard(Answer.WELL, 200, identity="x", said={}, held="10.0.0.1:8998", holder="stranger")
    engine("prefill-a", told)
    found = asked()
    assert no(found) == [("port", "stranger")] and "10.0.0.1:8998" in found.outcome.sentence


def test_nameless_requests_explain_an_instance_that_nobody_came_to():
    World("a").launch(TP2, first_port=4000)
    World("b")
    data = {"what": "PUT /route", "source": "10.0.0.9", "sentence": "2 instances share this listener"}
    assert asked("b")["tenant"].verdict.value == "not_observed"
    record(lambda: (None, [NewEvent("registration.refused", "", data)]))
    found = asked("b")
    assert no(found) == [("tenant", "ambiguous")] and "X-PD-Instance" in found.outcome.next
    assert found["registered"].follows == "tenant"
    assert asked("a").outcome.code == "well", "whose ranks are there, did name it"


def test_two_names_for_one_engine_are_found_out():
    World("a").launch(TP2, first_port=4000)
    World("b").launch(TP2, first_port=5000)
    for name in "ab":
        engine(name, Heard(Answer.WELL, 200))
    assert no(asked("a")) == [("tenant", "twins")] == no(asked("b"))


def test_a_router_that_is_away_while_the_engine_answers_is_the_only_thing_that_fails():
    World().launch(TP2, first_port=4000)
    engine("prefill-a", Heard(Answer.WELL, 200))
    router("r", "prefill-a", state="away", problem="no usable answer came from r:1")
    found = asked()
    assert no(found) == [("proxy", "proxy_down")]
    assert "its engine answers directly, so only the proxy fails" in found.outcome.sentence


def test_a_router_that_does_not_list_a_worker_is_to_blame_only_when_it_should():
    World().launch(TP2, first_port=4000)
    router("r", "prefill-a", present=False)
    assert no(asked()) == [("router", "unlisted")]
    intent.cordon("prefill-a", **WHO)
    found = asked()
    assert no(found) == [("wanted", "cordoned")]
    assert found["router"].code == "kept_away" and "anna: a test" in found.outcome.sentence


def test_open_breakers_and_contrary_verdicts_are_told_apart():
    World().launch(TP2, first_port=4000)
    engine("prefill-a", Heard(Answer.WELL, 200))
    router("r", "prefill-a", healthy=False, breakers_at=time.time() - 100)
    found = asked()
    assert found["breaker"].verdict.value == "not_observed", "its metrics were not read for long"
    assert no(found) == [("health", "disagree")] and "router r takes it for sick" in found.outcome.sentence
    gateways.join("g")
    gateways.report_breakers("g", [{"instance": "prefill-a", "state": "open", "reason": "500s"}])
    assert no(asked()) == [("breaker", "open"), ("health", "disagree")]


def test_without_a_leader_that_is_the_answer_and_probes_are_old():
    World().launch(TP2, first_port=4000)
    Lease.objects.using(FACTS).update(expires_at=time.time() - 100)
    found = asked()
    assert no(found) == [("directory", "nobody_leads")] and "manage.py bootstrap" in found.outcome.next
    assert found["answering"].verdict.value == "not_observed"


def test_a_pair_that_cannot_work_is_no_fault_while_another_one_fits():
    World("p").launch(TP2, first_port=4000)
    for name, page in (("d", 16), ("e", 64)):
        instances.add(name, role="decode", actor="anna")
        said = {"mode": "decode", "page_size": page, "kv_cache_dtype": "auto", "tp_size": 2, "cp_size": 1, "pp_size": 1}
        engine(name, Heard(Answer.WELL, 200, identity="x", said=said), url=f"http://{name}:30000")
        found = asked("p")
        if name == "d":
            assert no(found) == [("pairs", "misfit")] and "page_size" in found.outcome.sentence
            assert no(asked("d")) == [("pairs", "misfit")]
    assert "misfit" not in {code for _, code in no(found)}


def test_what_is_wanted_of_dp_groups_is_said_and_decides_when_none_is_left():
    World().launch(Topology(2, 1, 1, 1), first_port=4000)
    intent.cordon("prefill-a", group=0, **WHO)
    found = asked()
    assert found.outcome.code == "well" and "DP group 0 is cordoned by anna" in found["wanted"].sentence
    intent.cordon("prefill-a", group=1, **WHO)
    found = asked()
    assert no(found) == [("wanted", "groups")] and "none of the 2 DP groups is routable" in found.outcome.sentence


def test_a_launch_that_is_not_proven_yet_is_neither_yes_nor_no():
    World().put(Slot(0, 0, 0, 0), Topology(1, 1, 1, 1), port=4000)
    found = asked()
    assert no(found) == [] and found["registered"].verdict.value == "not_observed"


def test_a_retired_instance_has_one_answer():
    World()
    instances.retire("prefill-a", actor="anna")
    found = asked()
    assert [answer.key for answer in found.answers] == ["wanted"] and no(found) == [("wanted", "retired")]


def test_decodes_and_seeds_are_asked_what_concerns_them():
    World()
    for role in ("decode", "seed"):
        instances.add(role, role=role, actor="anna")
        keys = {answer.key for answer in asked(role).answers}
        assert not keys & {"port", "registered", "answering"}
    assert keys <= {"directory", "tenant", "wanted"}


def test_an_inquiry_costs_a_constant_number_of_queries():
    for number in (1, 2):
        world = World(f"p{number}")
        world.launch(Topology(number, 1, 4, 1), first_port=4000, skip=number - 1)
        world.put(Slot(0, 0, 0, 0), Topology(number, 1, 4, 1), port=4000)
        with CaptureQueriesContext(connections[READER]) as captured:
            asked(f"p{number}")
        assert sum("SELECT" in query["sql"] for query in captured) == INQUIRY_QUERIES
