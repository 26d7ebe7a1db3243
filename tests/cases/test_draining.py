"""Public reports: a drain waits for what is in flight, and says what it waits for."""

import time
from collections.abc import Iterator

import pytest

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.cases.ranks import Ranks, complete, here
from tests.controlplane.commands.on_backend import on_backend
from tests.doubles.engine import Engine
from tests.support.processes import Bootstrap
from tests.wire.client import Client

__all__ = ["on_backend"]

WHO = {"actor": "ann", "reason": "maintenance"}
ROOMS = range(1200, 1212)
ROOM_SECONDS = 15
SLOWEST_SECONDS = 25


class Transfers:
    """Twelve rooms between dispatch and the end of their transfer. Clock and looks are ours; the sockets are real."""

    def __init__(self, engine: Engine, process: Bootstrap, ports: list[int]) -> None:
        self.engine, self.process, self.ports = engine, process, ports
        self.client = Client(process.kv_port, headers={"X-PD-Instance": "a"})

    def begin(self) -> None:
        from tests.controlplane.commands.draining import Looker

        for room in ROOMS:
            assert self.client.bind(room, 0).status == 200
        self.engine.counts[0].inflight = len(ROOMS)
        self.began = time.time()
        self.look = Looker()

    @property
    def seconds(self) -> float:
        return self.look.now - self.began

    def until(self, seconds: float) -> None:
        """A second a look. One room ends every two seconds, and the slowest last."""
        while self.seconds < seconds:
            ended = min(int(self.seconds / 2), len(ROOMS) - 1) + (self.seconds >= SLOWEST_SECONDS)
            self.engine.counts[0].inflight = max(0, len(ROOMS) - ended)
            self.look()

    def still_answered(self, *, rooms: bool = True) -> None:
        """What decodes ask of an instance that is drained, so that their rooms can end."""
        assert (self.client.health(), self.client.topology().status) == (200, 200)
        assert [self.client.slot(tp=tp).json()["rank_port"] for tp in (0, 1)] == self.ports
        if rooms:
            assert self.client.find(*ROOMS).json() == {str(room): 0 for room in ROOMS}


@pytest.fixture
def transfers(on_backend, tmp_path, ranks: Ranks) -> Iterator[Transfers]:
    from controlplane.commands import instances
    from tests.controlplane.commands.draining import join

    knobs = {"PDCP_ROOM_TTL_SECONDS": ROOM_SECONDS, "PDCP_PROBE_INTERVAL_SECONDS": 0.3, "PDCP_PROBE_TIMEOUT_SECONDS": 5}
    process = Bootstrap(on_backend.env, log=tmp_path / "log", **knobs)
    with Engine() as engine, Engine("decode") as decode:
        try:
            instances.add("a", engine_url=engine.url, **WHO)
            instances.add("b", **WHO)
            instances.add("d", role="decode", engine_url=decode.url, **WHO)
            process.start()
            ports = [ranks.open(), ranks.open()]
            made = Transfers(engine, process, ports)
            other = Client(process.kv_port, headers={"X-PD-Instance": "b"})
            for tp, port in enumerate(ports):
                assert made.client.put(**here(attn_tp_size=2, attn_tp_rank=tp, rank_port=port)).status == 200
            assert other.put(**here(rank_port=ranks.open())).status == 200
            for client in (made.client, other):
                complete(client)
            join()
            made.begin()
            yield made
        finally:
            process.kill9()


def names_of_pairs() -> set[str]:
    """The prefills that new pairs may use."""
    from controlplane.queries import routable

    return {row.name for row in routable.instances(now=time.time()) if row.routable and row.role == "prefill"}


def test_HLT_13_a_drain_ends_with_the_slowest_transfer_and_everything_about_it_is_answered_until_then(transfers):
    from controlplane.commands import drains
    from tests.controlplane.commands.draining import acknowledge, the_drain

    assert names_of_pairs() == {"a", "b"}
    drains.drain("a", deadline_at=time.time() + 60, **WHO)
    assert names_of_pairs() == {"b"}, "no new pair uses it"
    acknowledge()
    transfers.until(5)
    transfers.still_answered()
    assert "rooms that were bound to the instance before are still live" in the_drain("a").blockers
    # Of everything, only the tables survive.
    transfers.process.restart()
    transfers.until(20)
    transfers.still_answered(rooms=False)
    waiting = the_drain("a")
    assert waiting.progress == "waiting" and waiting.blockers == ("the engine still has requests on dp0",)
    assert not waiting.safe_to_delete
    transfers.until(SLOWEST_SECONDS)
    assert the_drain("a").progress == "waiting"
    transfers.until(SLOWEST_SECONDS + 4)
    drained = the_drain("a")
    assert (drained.progress, drained.safe_to_delete, drained.blockers) == ("drained", True, ())
    transfers.still_answered(rooms=False)


def test_HLT_13_past_its_limit_it_is_overdue_lists_what_is_left_and_can_be_cancelled_or_forced(transfers):
    from controlplane.commands import drains
    from tests.controlplane.commands.draining import acknowledge, events, the_drain

    drains.drain("a", deadline_at=time.time() + 10, **WHO)
    acknowledge()
    transfers.until(20)
    overdue = the_drain("a")
    assert (overdue.progress, overdue.safe_to_delete) == ("overdue", False)
    assert overdue.blockers == ("the engine still has requests on dp0",)
    (reading,) = overdue.readings
    assert 2 <= reading.counts["inflight"] <= 4, "12 rooms, and one every two seconds"
    transfers.still_answered(rooms=False)
    assert drains.cancel("a", **WHO).intent == "enabled"
    assert names_of_pairs() == {"a", "b"} and the_drain("a").progress == "cancelled"

    drains.drain("a", **WHO)
    acknowledge()
    transfers.look(2)
    drains.force("a", **WHO)
    transfers.look(3)
    forced = the_drain("a")
    assert (forced.progress, forced.safe_to_delete) == ("forced", False)
    assert names_of_pairs() == {"b"}
    ended = [event.data["result"] for event in events("drain.ended", instance="a")]
    assert ended == ["cancelled", "forced"], "and never drained"
