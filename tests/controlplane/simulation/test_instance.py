"""A simulated instance against a directory that writes everything down."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time

import pytest

from controlplane.domain.contact import Contact
from controlplane.domain.errors import Refused
from controlplane.domain.topology import SharedFacts, Slot
from controlplane.probes.zmtp import greet
from controlplane.simulation import console, wire
from controlplane.simulation.instance import Instance, Plan
from controlplane.simulation.listener import Doors, Nobody
from controlplane.simulation.report import Reporter
from controlplane.simulation.rooms import bind_rooms
from controlplane.simulation.shape import Selector, Shape
from controlplane.simulation.wire import Wire, retry_delay
from tests.controlplane.simulation.directory import Directory

FACTS = SharedFacts(page_size=64, kv_cache_dtype="auto")
HERE = "127.0.0.1"


class Simulation:
    """An instance with its wire, its doors and what it said."""

    def __init__(self, directory: Directory, shape: Shape, *, prefix: str = "", listen: bool = True, **plan):
        self.said = io.StringIO()
        self.reporter = Reporter(as_json=True, ranks=shape.topology.size, out=self.said)
        self.wire = Wire(directory.url + prefix, directory.url + prefix)
        self.doors = Doors(HERE)
        self.instance = Instance(
            Plan(shape=shape, facts=FACTS, host=HERE, **plan),
            shape.topology.slots(),
            wire=self.wire,
            open_listener=self.doors.open if listen else lambda: Nobody(HERE),
            reporter=self.reporter,
        )

    def lines(self, what: str) -> list[dict]:
        told = [json.loads(line) for line in self.said.getvalue().splitlines()]
        return [line for line in told if line["what"] == what]

    async def __aenter__(self) -> Simulation:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.instance.close()
        self.doors.close()
        await self.wire.close()


async def contacts(simulation: Simulation) -> list[Contact]:
    return [await greet(HERE, rank.port, timeout=20) for rank in simulation.instance.ranks]


async def test_ranks_listen_greet_and_register_their_own_ports():
    async with Directory() as directory, Simulation(directory, Shape(dp=2, tp=2)) as simulation:
        await simulation.instance.start()
        assert len(directory.rows) == 4
        for rank in simulation.instance.ranks:
            row = directory.rows[rank.slot]
            assert (row["rank_ip"], row["rank_port"]) == (HERE, rank.port)
        assert await contacts(simulation) == [Contact.UP] * 4
        assert (await simulation.instance.wait_ready(within=20)).ok
        assert simulation.lines("ready") and len(simulation.lines("registered")) == 4


async def test_a_killed_rank_refuses_and_a_restarted_one_registers_a_new_port():
    async with Directory() as directory, Simulation(directory, Shape(tp=2)) as simulation:
        await simulation.instance.start()
        before = {rank.slot: rank.port for rank in simulation.instance.ranks}
        killed = simulation.instance.kill(Selector.parse("tp1"))
        assert [rank.slot for rank in killed] == [Slot(0, 0, 1, 0)]
        # ZeroMQ closes behind our back.
        async with asyncio.timeout(20):
            while await contacts(simulation) != [Contact.UP, Contact.REFUSED]:
                await asyncio.sleep(0.01)

        await simulation.instance.restart(Selector.parse("tp1"))
        after = {slot: row["rank_port"] for slot, row in directory.rows.items()}
        assert after[Slot(0, 0, 0, 0)] == before[Slot(0, 0, 0, 0)]
        assert after[Slot(0, 0, 1, 0)] != before[Slot(0, 0, 1, 0)]
        assert await contacts(simulation) == [Contact.UP, Contact.UP]


async def test_a_restart_of_everything_is_another_launch_with_new_ports_and_a_new_token():
    async with Directory() as directory, Simulation(directory, Shape(tp=2), token="blue") as simulation:
        await simulation.instance.start()
        before = {row["rank_port"] for row in directory.rows.values()}
        await simulation.instance.restart()
        assert not before & {row["rank_port"] for row in directory.rows.values()}
        tokens = [headers["X-PD-Generation"] for _, headers, _ in directory.puts]
        assert tokens == ["blue", "blue", "blue-2", "blue-2"]


async def test_without_listening_an_address_is_registered_that_nobody_is_behind():
    async with Directory() as directory, Simulation(directory, Shape(tp=2), listen=False) as simulation:
        await simulation.instance.start()
        assert len({row["rank_port"] for row in directory.rows.values()}) == 2
        assert await contacts(simulation) == [Contact.REFUSED] * 2


def test_nobody_elsewhere_gets_distinct_ports_without_binding():
    ports = [Nobody("203.0.113.7").port for _ in range(100)]
    assert len(set(ports)) == 100 and all(1 <= port <= 65535 for port in ports)


async def test_an_instance_is_named_by_the_path_and_unmodified_ranks_send_no_header_of_ours():
    async with Directory() as directory, Simulation(directory, Shape(), prefix="/i/blue") as simulation:
        await simulation.instance.start()
        path, headers, _ = directory.puts[0]
        assert path == "/i/blue/route"
        assert not [name for name in headers if name.lower().startswith("x-pd")]


async def test_weights_go_out_before_the_row_and_once():
    async with Directory() as directory, Simulation(directory, Shape(tp=2), tensors=5) as simulation:
        await simulation.instance.start()
        assert sorted(row["tp_rank"] for row in directory.weights) == [0, 1]
        assert {len(row["transfer_engine_info"]["weights_info_dict"]) for row in directory.weights} == {5}
        told = [json.loads(line)["what"] for line in simulation.said.getvalue().splitlines()]
        assert told.index("weights") < told.index("registered")


async def test_a_refused_row_is_sent_again_after_the_delay_of_sglang(monkeypatch):
    monkeypatch.setattr(wire, "FIRST_DELAY_SECONDS", 0.01)
    async with Directory(refuse_first=2) as directory, Simulation(directory, Shape()) as simulation:
        await simulation.instance.start()
        assert len(directory.puts) == 3 and len(directory.rows) == 1
        assert [line["status"] for line in simulation.lines("attempt_failed")] == [503, 503]


async def test_after_five_attempts_a_rank_serves_unregistered(monkeypatch):
    monkeypatch.setattr(wire, "FIRST_DELAY_SECONDS", 0.01)
    async with Directory(refuse_first=99) as directory, Simulation(directory, Shape()) as simulation:
        await simulation.instance.start()
        assert len(directory.puts) == 5
        assert simulation.lines("gave_up")[0]["text"] == "not now"
        assert await contacts(simulation) == [Contact.UP]
        assert not (await simulation.instance.wait_ready(within=0)).ok


def test_the_retry_delay_doubles_and_is_jittered_down_by_a_quarter():
    assert [retry_delay(attempt, clock=0.0) for attempt in range(4)] == [0.75, 1.5, 3.0, 6.0]
    assert retry_delay(0, clock=5.999) == pytest.approx(1.0, abs=0.001)
    assert retry_delay(9, clock=0.0) == 22.5


async def test_a_rank_that_is_killed_while_it_retries_stops_retrying(monkeypatch):
    monkeypatch.setattr(wire, "FIRST_DELAY_SECONDS", 60)
    async with Directory(refuse_first=99) as directory, Simulation(directory, Shape()) as simulation:
        starting = asyncio.create_task(simulation.instance.start())
        while not directory.puts:
            await asyncio.sleep(0.01)
        simulation.instance.kill(Selector())
        await asyncio.wait_for(starting, 20)
        assert len(directory.puts) == 1


async def test_rooms_are_bound_at_the_asked_rate():
    async with Directory() as directory, Simulation(directory, Shape()) as simulation:
        began = time.monotonic()
        beside = asyncio.create_task(
            bind_rooms(simulation.wire, per_second=200, dp_size=4, reporter=simulation.reporter)
        )
        async with asyncio.timeout(20):
            while len(directory.rooms) < 100:
                await asyncio.sleep(0.01)
        took, bound = time.monotonic() - began, len(directory.rooms)
        beside.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beside
        # Half a second, and more on a busy machine; never faster than asked.
        assert bound <= 200 * took + 2
        assert set(directory.rooms.values()) <= {0, 1, 2, 3}
        assert all(0 <= room < 2**63 for room in directory.rooms)


async def test_typed_commands_do_what_they_say_and_others_are_refused_with_the_list():
    async with Directory() as directory, Simulation(directory, Shape(tp=2)) as simulation:
        await simulation.instance.start()
        await console.do(simulation.instance, "kill tp1", simulation.reporter)
        assert [rank.alive for rank in simulation.instance.ranks] == [True, False]
        await console.do(simulation.instance, "status", simulation.reporter)
        assert [line["alive"] for line in simulation.lines("status")] == [True, False]
        await console.do(simulation.instance, "restart", simulation.reporter)
        assert [rank.alive for rank in simulation.instance.ranks] == [True, True]
        await console.do(simulation.instance, "", simulation.reporter)
        for line in ("kill", "kill rank3", "launch"):
            with pytest.raises(Refused):
                await console.do(simulation.instance, line, simulation.reporter)


async def test_more_ranks_than_zeromq_allows_by_default_still_listen():
    with contextlib.closing(Doors(HERE)) as doors:
        listeners = [doors.open() for _ in range(1100)]
        assert len({listener.port for listener in listeners}) == 1100


def test_a_host_that_is_not_ours_cannot_be_listened_on():
    with contextlib.closing(Doors("203.0.113.7")) as doors, pytest.raises(Refused, match="--no-listen"):
        doors.open()
