"""A purge ends a retired instance for good; who lives is refused without an override, and everything is told."""

import time

import pytest

from controlplane.bootstrap.fleet import Fleet
from controlplane.bootstrap.fleet import Instance as Held
from controlplane.bootstrap.purging import Purge
from controlplane.bootstrap.recorder import Staged
from controlplane.commands import archiving, instances, leftovers, purging, requests
from controlplane.databases import FACTS
from controlplane.domain import fleetstate
from controlplane.domain.contact import Contact
from controlplane.domain.directory import Directory
from controlplane.domain.errors import Refused
from controlplane.domain.stale import check_purge
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import after
from controlplane.ledger.writes import Writes
from controlplane.models import (
    Breaker,
    EngineBody,
    EngineHealth,
    Event,
    Instance,
    Launch,
    PurgedInstance,
    Rank,
    Request,
)
from controlplane.queries import stale, state
from controlplane.queries.events import sentence
from tests.controlplane.queries.whole_fleet import WholeFleet

PAIR = Topology(1, 1, 2, 1)
WHY = {"actor": "anna", "reason": "hardware returned"}


@pytest.fixture
def fleet(on_backend) -> WholeFleet:
    made = WholeFleet()
    for name, port in (("a", 4001), ("b", 5001)):
        made.add(name)
        made.launch(name, PAIR, port, token="t")
        made.publish(name, 0, f"10.0.0.1:{port + 3000}", name)
    made.join("g1")
    made.breaker("g1", "a", "open")
    return made


def dead(fleet: WholeFleet, name: str = "a", *ports: int) -> None:
    for _ in range(2):
        fleet.observe(name, Contact.REFUSED, *(ports or (4001, 4002)))


def names() -> list[str]:
    return list(Instance.objects.using(FACTS).order_by("name").values_list("name", flat=True))


def test_a_retired_and_dead_instance_goes_and_its_launches_are_in_the_archive(fleet):
    fleet.retire("a")
    dead(fleet)
    key = Instance.objects.using(FACTS).get(name="a").pk
    cursor, before = state.fleet_state()
    fleet.purge("a")
    assert names() == ["b"]
    events = after(cursor.revision)
    assert [event.kind for event in events][-3:] == ["engine.retired", "instance.purged", "request.answered"]
    assert fleetstate.follow(before, events) == state.fleet_state()[1]
    assert (events[-2].actor, events[-2].reason, events[-2].instance) == ("anna", "gone for good", "a")
    assert "nothing is called so any more" in sentence(events[-2])
    assert not Breaker.objects.using(FACTS).filter(instance="a").exists()
    assert list(EngineBody.objects.using(FACTS).values_list("digest", flat=True)) == ["b"]
    # Its launches leave the tables at once, with its name, whatever the setting says of others.
    archiving.archive_ended(now=time.time() + 90_000)
    (row,) = stale.archive()
    assert (row.instance, row.number, row.rank_count) == ("a", 1, 2)
    assert not Launch.objects.using(FACTS).filter(instance_id=key).exists()
    assert not Rank.objects.using(FACTS).filter(instance_id=key).exists()
    grave = PurgedInstance.objects.using(FACTS).get()
    assert (grave.instance_id, grave.name, grave.actor, grave.reason) == (key, "a", "anna", "gone for good")
    leftovers.sweep(now=time.time() + 90_000)
    # The story before the purge is told as it was.
    assert state.as_of(cursor.revision) == before


def test_a_purged_name_is_free_and_who_takes_it_is_somebody_new(fleet):
    fleet.retire("a")
    dead(fleet)
    fleet.purge("a")
    key = PurgedInstance.objects.using(FACTS).get().instance_id
    fleet.register_itself("a")
    assert Instance.objects.using(FACTS).get(name="a").pk != key
    assert state.fleet_state()[1]["instances"]["a"] == fleetstate.newcomer()


def test_who_lives_is_refused_and_nothing_is_asked(fleet):
    with pytest.raises(Refused, match="a is not retired: retire it first, or override") as refused:
        purging.purge("a", **WHY)
    assert refused.value.code == "conflict"
    with pytest.raises(Refused, match="no instance is named ghost"):
        purging.purge("ghost", **WHY)
    with pytest.raises(Refused, match="an actor is needed"):
        purging.purge("a", actor=" ")
    with pytest.raises(Refused, match="some of it is no character"):
        purging.purge("a", actor="anna", reason="\udcff")
    with pytest.raises(Refused, match="must not hold U\\+202E: with it a sentence reads otherwise"):
        purging.purge("a", actor="anna", reason="\u202egnp.exe")
    assert not Request.objects.using(FACTS).exists()
    with pytest.raises(Refused, match="a request is one of evict, "):
        requests.make("purge", "a", actor="anna")


def test_an_override_purges_who_lives_and_says_what_was_overridden(fleet):
    fleet.purge("a", override=True)
    assert names() == ["b"]
    event = Event.objects.using(FACTS).get(kind="instance.purged")
    assert '"answering":2' in event.data and '"override":true' in event.data
    kinds = list(Event.objects.using(FACTS).filter(instance="a").order_by("revision").values_list("kind", flat=True))
    assert kinds.index("instance.retired") < kinds.index("rank.left") < kinds.index("instance.purged")
    assert PurgedInstance.objects.using(FACTS).get().override
    assert state.as_of(Event.objects.using(FACTS).count()) == state.fleet_state()[1]


def test_whether_it_lives_is_decided_when_its_ranks_were_asked_and_it_may_have_been_added_again(fleet):
    fleet.retire("a")
    number = purging.purge("a", **WHY)
    held = fleet._known("a")
    held.intent = "retired"
    answer(held, number, answering=2)
    said = requests.wait_for_answer(number, timeout=0)
    assert (said.granted, said.sentence) == (
        False, "2 ranks of a still answer: stop the engine first, or override",
    )  # fmt: skip
    held.intent = "enabled"
    number = Request.objects.using(FACTS).create(kind="purge", instance="a", actor="x", made_at=1.0).pk
    answer(held, number, override=True)
    assert requests.wait_for_answer(number, timeout=0).sentence == "a is not retired any more; nothing was purged"
    assert names() == ["a", "b"]


def answer(held: Held, number: int, *, override: bool = False, answering: int = 0) -> None:
    staged, writes = Staged(held, held.directory, held.engines), Writes(1)
    Purge(held, request=number, override=override, answering=answering, **WHY).decide(staged, writes, time.time())
    WholeFleet().store.commit(1, writes)
    assert staged.directory is held.directory, "nothing is staged of what was refused"


def test_while_a_purge_is_under_way_nobody_brings_the_instance_back_and_other_requests_end_with_it(fleet):
    fleet.retire("a")
    dead(fleet)
    other = Request.objects.using(FACTS).create(kind="evict", instance="a", actor="x", made_at=1.0).pk
    number = purging.purge("a", **WHY)
    for again in (lambda: instances.add("a", **WHY), lambda: purging.purge("a", **WHY)):
        with pytest.raises(Refused, match="a purge of a is under way") as refused:
            again()
        assert refused.value.code == "conflict"
    held = fleet._known("a")
    held.intent = "retired"
    fleet._commit(held, Purge(held, request=number, override=False, answering=0, **WHY))
    assert requests.wait_for_answer(number, timeout=0).granted
    ended = requests.wait_for_answer(other, timeout=0)
    assert (ended.granted, ended.sentence) == (False, "a was purged")
    instances.add("a", **WHY)


def test_what_is_stale_is_listed_with_its_age_and_why(fleet):
    fleet.add("empty")
    fleet.retire("b")
    dead(fleet)
    now = time.time()
    fleet.add("c")
    fleet.launch("c", PAIR, 6001)
    fleet.observe("c", Contact.SILENT, 6001, 6002)
    rows = {row.instance: row for row in stale.stale(now=now + 60)}
    assert {name: row.what for name, row in rows.items()} == {
        "a": "empty", "b": "retired", "c": "silent", "empty": "empty",
    }  # fmt: skip
    assert rows["b"].reason == "retired by anna" and (rows["b"].registered, rows["b"].answering) == (2, 2)
    assert rows["b"].alive == "" and rows["a"].alive == "a is not retired"
    assert rows["a"].reason == "nobody is registered any more" and rows["empty"].reason == "nobody has ever registered"
    assert rows["c"].reason == "none of its ranks answers"
    assert stale.stale(now=now + 60, older_than=3600) == ()
    assert [row.instance for row in stale.stale(now=now + 60, instance="b")] == ["b"]
    told = purging.plan("b", now=now + 60).sentences
    assert any(said.startswith("2 ranks of it are registered, 2 answered when last asked: ") for said in told)
    assert stale.ended().waiting == 1


def test_a_decode_registers_nobody_and_is_stale_only_when_its_engine_is_away(fleet):
    def seen(name: str, state: str) -> list[tuple[str, str]]:
        key = Instance.objects.using(FACTS).get(name=name).pk
        EngineHealth.objects.using(FACTS).update_or_create(
            instance_id=key, defaults={"at": "http://x", "state": state, "since": 1.0}
        )
        return [(row.what, row.reason) for row in stale.stale(now=time.time() + 60, instance=name)]

    fleet.add("d", "decode")
    assert stale.stale(now=time.time() + 60, instance="d") == ()
    assert seen("d", "up") == seen("d", "late") == seen("d", "unknown") == []
    assert seen("d", "down") == [("silent", "its engine is down")]
    fleet.retire("d")
    assert [what for what, _ in seen("d", "up")] == ["retired"]
    EngineHealth.objects.using(FACTS).update(answered_at=time.time() - 60)
    said = purging.plan("d", now=time.time()).sentences
    assert any(line.startswith("its engine at http://x answered 60 s ago") for line in said), said
    # A prefill whose engine answers, before its ranks have registered.
    fleet.add("p")
    assert seen("p", "down") == [("empty", "nobody has ever registered")]
    assert seen("p", "starting") == []


def test_the_rule_is_one_table():
    for retired, answering, override, refused in (
        (True, 0, False, ""),
        (True, 1, False, "1 rank of a still answers: stop the engine first, or override"),
        (True, 1, True, ""),
        (False, 0, False, "a is not retired: retire it first, or override"),
        (False, 5, True, ""),
    ):
        try:
            check_purge("a", retired=retired, answering=answering, override=override)
            said = ""
        except Refused as problem:
            said = problem.sentence
        assert said == refused


def test_in_memory_nobody_is_called_so_any_more_and_its_rooms_are_forgotten():
    fleet = Fleet(room_limit=10)
    a, b = Held(1, "a", own_port=9001), Held(2, "b")
    fleet.add_all([a, b])
    fleet.rooms.bind(1, 7, 0, 1000, 0)
    a.answers[b"?"] = object()  # type: ignore[assignment]
    fleet.remove(a)
    assert (fleet.named("a"), fleet.only_one(ranks=True), fleet.by_port, fleet.rooms.count) == (None, b, {}, 0)
    assert not a.answers
    again = Held(3, "a", directory=Directory("a"))
    fleet.add(again)
    fleet.remove(a)
    assert fleet.named("a") is again
