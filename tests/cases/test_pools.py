"""Public reports: whom a real router may choose from, as the control plane keeps its list."""

import pytest

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.cases.test_routers import peer, settle
from tests.controlplane.probes.answering import reply
from tests.controlplane.routers.conftest import _shared_router, fleet, on_backend, router, start_router
from tests.doubles.engine import Engine

__all__ = ["_shared_router", "fleet", "on_backend", "router", "start_router"]


def hold(fleet, router, names: str) -> None:
    """Rounds, until exactly these are in it."""
    settle(lambda: router.urls() == sorted(fleet.engines[name].url for name in names))


def shares(fleet, names: str, router, requests: int) -> list[int]:
    """How many of so many requests each of these gets."""
    before = {name: fleet.engines[name].count("/generate") for name in names}
    assert {router.generate() for _ in range(requests)} == {200}
    return [fleet.engines[name].count("/generate") - before[name] for name in names]


def test_RTR_06_who_is_not_available_is_not_in_the_list_so_nobody_gets_its_share(fleet, router):
    from controlplane.domain.topology import Topology

    for name in "abce":
        fleet.prefill(name)
    fleet.decode("d")
    fleet.serve(router)
    hold(fleet, router, "abcde")
    assert shares(fleet, "abce", router, 40) == [10, 10, 10, 10]
    # What the directory has seen: its ranks refuse. Its engine answers /health on.
    ports = [row.port for launch in fleet.worlds["b"].directory.launches() for row in launch.rows.values()]
    fleet.worlds["b"].refuse(*ports)
    hold(fleet, router, "acde")
    assert shares(fleet, "abce", router, 60) == [20, 0, 20, 20], "not 30, 0, 15, 15"
    fleet.worlds["b"].launch(Topology(1, 1, 1, 1), first_port=9000)
    fleet.worlds["b"].end_flush()
    hold(fleet, router, "abcde")
    assert shares(fleet, "abce", router, 40) == [10, 10, 10, 10]


def test_HLT_04_a_dead_prefill_is_taken_out_alone_and_its_decode_goes_on(fleet, router):
    from tests.controlplane.routers.fleet import told

    for name in "ab":
        fleet.prefill(name)
    fleet.decode("d")
    fleet.serve(router)
    hold(fleet, router, "abd")
    seen = told()[-1].revision
    ports = [row.port for launch in fleet.worlds["a"].directory.launches() for row in launch.rows.values()]
    fleet.engines["a"].stop()
    fleet.worlds["a"].refuse(*ports)
    hold(fleet, router, "bd")
    assert shares(fleet, "bd", router, 10) == [10, 10]
    assert [(event.kind, event.instance) for event in told(since=seen)] == [("router.worker_removed", "a")]


def test_HLT_05_each_round_compares_everything_and_whoever_is_gone_leaves_nothing(fleet, router):
    """Nobody tells it of a deletion: p1 moved, p2 is not ours any more, p3's address is another program's."""
    from controlplane.commands import instances, routers
    from controlplane.databases import FACTS
    from controlplane.models import Breaker
    from controlplane.queries import routers as queries
    from tests.controlplane.routers.fleet import WHO, member

    for name in ("p1", "p2"):
        fleet.prefill(name)
    fleet.decode("d")
    fleet.serve(router)
    settle(lambda: len(router.urls()) == 3)
    old = fleet.engines["p1"]
    old.stop()
    with Engine("prefill") as moved:
        instances.edit("p1", engine_url=moved.url, **WHO)
        settle(lambda: router.urls() == sorted([moved.url, fleet.engines["p2"].url, fleet.engines["d"].url]))
        assert old.url not in router.urls()
        about_p2 = Breaker.objects.using(FACTS).filter(instance="p2")
        Breaker.objects.using(FACTS).create(
            gateway="router:r", instance="p2", group=-1, state="open", since=1.0, reported_at=1.0
        )
        instances.retire("p2", **WHO)
        settle(lambda: router.urls() == sorted([moved.url, fleet.engines["d"].url]))
        assert not member("p2").present and "retired" in member("p2").sentence
        routers.edit("r", instances=["d", "p1"], **WHO)
        settle(lambda: {row.instance for row in queries.router("r").members} == {"d", "p1"})
        assert not about_p2.exclude(state="closed").exists()


@pytest.mark.parametrize(
    ("head", "body"),
    [("200 OK", b"hello"), ("200 OK", b'{"disaggregation_mode": "null"}'), ("404 Not Found", b"nothing here")],
    ids=["any page", "an engine of another kind", "nothing else"],
)
def test_HLT_05_somebody_who_answers_200_is_not_an_engine_of_ours(fleet, router, head, body):
    from controlplane.commands import routers
    from tests.controlplane.routers.fleet import member

    fleet.decode("d")
    with peer(reply(head, body)) as unrelated:
        fleet.decode("e")
        fleet.set("e", engine_url=unrelated.url)
        fleet.serve(router)
        routers.reconcile()
        assert router.urls() == [fleet.engines["d"].url]
        assert not member("e").present and member("e").sentence
