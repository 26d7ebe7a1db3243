"""Public reports: what probes and gateways say, and what follows from it for whoever is to be sent work."""

import time

import pytest

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.controlplane.commands.on_backend import on_backend

__all__ = ["on_backend"]


@pytest.fixture
def world(on_backend):
    """A prefill "prefill-a" of one rank behind gateway "g1", and a decode "d"."""
    from controlplane.commands import instances
    from controlplane.domain.topology import Topology
    from tests.controlplane.commands.draining import WHO, join
    from tests.controlplane.queries.world import World

    made = World("prefill-a")
    made.launch(Topology(1, 1, 1, 1), first_port=4000)
    instances.add("d", role="decode", engine_url="http://10.0.0.2:30000", **WHO)
    join()
    return made


def routable() -> dict[str, bool]:
    from controlplane.queries import routable

    return {row.name: row.routable for row in routable.instances(now=time.time())}


def pairs() -> int:
    from controlplane.queries import routable

    return routable.pairs()


def breaker(state: str, why: str = "") -> None:
    from controlplane.commands import gateways

    gateways.report_breakers("g1", [{"instance": "prefill-a", "state": state, "age_seconds": 0.0, "reason": why}])


def outcomes(outcome: str, count: int) -> None:
    from controlplane.commands import gateways

    item = {"prefill": "prefill-a", "decode": "d", "outcome": outcome, "count": count, "age_seconds": 0.0}
    assert gateways.report_outcomes("g1", [item]).unknown == ()


def test_HLT_07_a_missed_probe_takes_nobody_out_and_only_a_second_refusal_in_a_row_does(world):
    from controlplane.domain.contact import Contact
    from controlplane.domain.launch import CONFIRM_AFTER

    ok, fail = Contact.UP, Contact.REFUSED
    for seen in (ok, fail, ok, fail, ok, Contact.UNREACHED, Contact.SILENT, Contact.UNREACHED, ok, fail, ok):
        world.now += 2.0
        world.probe(seen, 4000)
        assert routable()["prefill-a"], seen
    # Two that come at one moment are one.
    for _ in range(2):
        world.now += CONFIRM_AFTER / 4
        world.probe(fail, 4000)
        assert routable()["prefill-a"]
    world.now += CONFIRM_AFTER
    world.probe(fail, 4000)
    assert not routable()["prefill-a"]
    # Who is out comes back by registering, not by one lucky probe.
    for seen in (ok, fail, ok, ok):
        world.now += 2.0
        world.probe(seen, 4000)
        assert not routable()["prefill-a"]


def test_HLT_07_what_was_judged_survives_a_restart_neither_dead_nor_alive_by_default(world):
    """Another process reads the tables: it has seen nobody, and says what was seen."""
    from controlplane.bootstrap.loading import load_instances
    from controlplane.probes.networks import ProbePolicy

    def restored() -> dict[str, bool]:
        instances, _ = load_instances(ProbePolicy())
        return {instance.name: instance.directory.current is not None for instance in instances}

    assert restored()["prefill-a"] and routable()["prefill-a"]
    world.refuse(4000)
    assert not restored()["prefill-a"] and not routable()["prefill-a"]


def test_RTR_01_what_clients_did_wrong_is_counted_and_turns_nothing(world):
    from controlplane.ledger.tail import head
    from controlplane.queries import gateways as queries

    before = head()
    for status in (400, 404, 413, 422, 429):
        outcomes(f"client_error.{status}", 10)
    assert routable() == {"prefill-a": True, "d": True} and head() == before
    assert {row.outcome: row.count for row in queries.outcomes(since_minute=0)} == {
        f"client_error.{status}": 10 for status in (400, 404, 413, 422, 429)
    }


def test_RTR_02_an_open_breaker_of_a_prefill_leaves_no_pair_and_closes_without_an_operator(world):
    assert pairs() == 1
    breaker("open", "5 of 5 answers were 500")
    assert pairs() == 0, "a decode alone is not a pair"
    assert routable() == {"prefill-a": False, "d": True}
    breaker("half_open")
    assert pairs() == 1, "a probe must get through"
    breaker("closed")
    assert pairs() == 1 and routable() == {"prefill-a": True, "d": True}


def test_HLT_10_how_many_were_aborted_is_known_by_instance(world):
    from controlplane.queries import gateways as queries

    outcomes("aborted", 180)
    outcomes("ok", 20)
    outcomes("aborted", 3)
    counted: dict[tuple[str, str, str], int] = {}
    for row in queries.outcomes(since_minute=0):
        key = (row.prefill, row.decode, row.outcome)
        counted[key] = counted.get(key, 0) + row.count
    assert counted == {("prefill-a", "d", "aborted"): 183, ("prefill-a", "d", "ok"): 20}
    assert routable() == {"prefill-a": True, "d": True}
