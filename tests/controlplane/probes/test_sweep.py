"""Many probes at once, against real sockets."""

from __future__ import annotations

import asyncio
import time

from controlplane.domain.contact import Contact
from controlplane.probes.networks import ProbePolicy, parse_networks
from controlplane.probes.places import Places
from controlplane.probes.sweep import APART_SECONDS, Budget, Prober, Purse, Target
from controlplane.probes.zmtp import GREETING
from tests.controlplane.probes import peers
from tests.support.ports import free_port

HERE = "127.0.0.1"
# For those who answer at once, on a machine that may have other work to do.
PATIENCE = 20.0


class Greeter:
    """A peer that greets after a while and counts who came, and how many were there at once."""

    def __init__(self, *, after: float = 0.05) -> None:
        self.after, self.came, self.here, self.most = after, 0, 0, 0

    async def __aenter__(self) -> Greeter:
        self._server = await asyncio.start_server(self._greet, HERE, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error) -> None:
        self._server.close()

    async def _greet(self, _reader, writer) -> None:
        self.came += 1
        self.here += 1
        self.most = max(self.most, self.here)
        await asyncio.sleep(self.after)
        self.here -= 1
        writer.write(GREETING)
        writer.close()


async def test_every_target_gets_its_own_answer():
    prober = Prober(ProbePolicy(own_ports=frozenset({8998})), timeout=2.0)
    with peers.pull() as up, peers.speechless() as silent:
        closed = free_port()
        answers = await prober.probe_many(
            [
                Target(HERE, up, HERE),
                Target(HERE, closed, HERE),
                Target(HERE, silent, HERE),
                Target("localhost", up, HERE),
                Target(HERE, 8998, HERE),
                Target(HERE, up, "10.0.0.9"),
                Target("203.0.113.7", 4100, HERE),
                Target("169.254.169.254", 80, HERE),
                Target("no-such-rank.invalid", 4100, HERE),
            ]
        )
    assert list(answers.values()) == [
        Contact.UP,
        Contact.REFUSED,
        Contact.SILENT,
        Contact.UP,
        Contact.UNPROBED,
        Contact.UNPROBED,
        Contact.UNPROBED,
        Contact.UNPROBED,
        Contact.UNREACHED,
    ]


async def test_a_name_does_not_open_a_door_that_its_address_would_not():
    prober = Prober(ProbePolicy(), timeout=PATIENCE)
    with peers.pull() as port:
        assert await prober.probe(Target("localhost", port, "10.0.0.9")) is Contact.UNPROBED
        assert await prober.probe(Target("localhost", port, HERE)) is Contact.UP


async def test_two_who_ask_at_once_share_one_probe_and_the_next_gets_a_fresh_one():
    prober = Prober(ProbePolicy(), timeout=PATIENCE)
    async with Greeter() as peer:
        answers = await asyncio.gather(*(prober.probe(Target(HERE, peer.port, HERE)) for _ in range(20)))
        assert set(answers) == {Contact.UP}
        assert peer.came == 1
        await prober.probe(Target(HERE, peer.port, HERE))
        assert peer.came == 2


async def test_a_caller_that_gives_up_does_not_take_the_answer_from_the_others():
    prober = Prober(ProbePolicy(), timeout=PATIENCE)
    async with Greeter(after=0.5) as peer:
        impatient = asyncio.create_task(prober.probe(Target(HERE, peer.port, HERE)))
        patient = asyncio.create_task(prober.probe(Target(HERE, peer.port, HERE)))
        await asyncio.sleep(0.02)
        impatient.cancel()
        assert await patient is Contact.UP
        assert peer.came == 1


async def test_no_more_probes_than_places_run_at_once():
    prober = Prober(ProbePolicy(allowed=parse_networks("127.0.0.0/8")), timeout=PATIENCE, places=Places(3, 0))
    async with Greeter(after=0.3) as peer:
        # All of 127.0.0.0/8 is this host: twelve addresses, one server.
        server = await asyncio.start_server(peer._greet, "0.0.0.0", 0)
        port = server.sockets[0].getsockname()[1]
        targets = [Target(f"127.0.1.{host}", port, HERE) for host in range(1, 13)]
        answers = await prober.probe_many(targets)
        server.close()
    assert set(answers.values()) == {Contact.UP}
    assert peer.came == 12 and peer.most == 3


async def test_each_probe_is_bounded_and_waiting_for_a_place_does_not_use_its_time_up():
    prober = Prober(ProbePolicy(), timeout=1.0, places=Places(1, 0))
    with peers.speechless() as silent, peers.pull() as up:
        began = time.monotonic()
        answers = await prober.probe_many([Target(HERE, silent, HERE), Target(HERE, up, HERE)])
        assert list(answers.values()) == [Contact.SILENT, Contact.UP]
        assert 1.0 <= time.monotonic() - began < 5


async def test_a_source_that_has_spent_its_budget_gets_no_more_probes_while_others_do():
    prober = Prober(ProbePolicy(), timeout=PATIENCE, budget=Budget(burst=2, per_second=0.0))
    ports = [free_port() for _ in range(4)]
    greedy = await prober.probe_many([Target(HERE, port, "127.0.0.7") for port in ports])
    assert sorted(greedy.values()) == [Contact.REFUSED, Contact.REFUSED, Contact.UNPROBED, Contact.UNPROBED]
    assert await prober.probe(Target(HERE, ports[0], "127.0.0.8")) is Contact.REFUSED


def test_a_budget_refills_with_time_and_never_past_its_burst():
    purse = Purse(Budget(burst=2, per_second=10.0))
    assert [purse.spend("a", now=0.0) for _ in range(3)] == [True, True, False]
    assert [purse.spend("a", now=0.1) for _ in range(2)] == [True, False]
    assert [purse.spend("a", now=99.0) for _ in range(3)] == [True, True, False]


def test_a_purse_remembers_a_bounded_number_of_sources():
    purse = Purse(Budget(burst=1, per_second=0.0), max_sources=2)
    assert purse.spend("a", now=0.0) and purse.spend("b", now=0.0) and not purse.spend("a", now=0.0)
    assert purse.spend("c", now=0.0) and purse.spend("b", now=0.0)


async def test_closing_ends_what_is_under_way():
    prober = Prober(ProbePolicy(), timeout=30.0)
    with peers.speechless() as port:
        waiting = asyncio.create_task(prober.probe(Target(HERE, port, HERE)))
        await asyncio.sleep(0.05)
        await prober.close()
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)


async def test_one_address_is_not_asked_again_within_a_tenth_of_a_second_and_others_need_not_wait():
    prober = Prober(ProbePolicy(), timeout=PATIENCE)
    clock = asyncio.get_running_loop().time
    async with Greeter() as often, Greeter() as once:
        began = clock()
        for _ in range(3):
            assert await prober.probe(Target(HERE, often.port, HERE)) is Contact.UP
        assert clock() - began >= 2 * APART_SECONDS
        later = asyncio.create_task(prober.probe(Target(HERE, often.port, HERE)))
        assert await prober.probe(Target(HERE, once.port, HERE)) is Contact.UP
        assert not later.done()
        assert await later is Contact.UP
        assert (often.came, once.came) == (4, 1)
