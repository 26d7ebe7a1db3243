"""Public reports, the workers' half: they register whoever comes up first, and find one another whoever hangs."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from tests.cases.ranks import Ranks, eventually
from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.support.processes import Bootstrap
from tests.wire.conftest import Server
from tests.workers.sdk.server import RESET, serving
from workers.sdk import Client, ControlPlane, NotReady, Place, Question, Rank, TimedOut, Unreachable, read_decode

GENEROUS = 40.0
# What a decode must say so that nothing is left to guess.
TP1 = Question(read_decode({"tp_size": 1, "pp_size": 1, "is_mla": False, "page_size": 64}))


def at(server: Server, instance: str, **more: str) -> ControlPlane:
    process = server.process
    address, engine = f"127.0.0.1:{process.kv_port}", f"127.0.0.1:{process.engine_port}"
    return ControlPlane.at(address, engine=engine, instance=instance, **more)


def rank_on(port: int, **facts) -> Rank:
    return Rank(**{"rank_ip": "127.0.0.1", "rank_port": port, "page_size": 64, **facts})


def ports(resolved) -> list[int]:
    return sorted(target.port for target in resolved.all_targets())


@contextmanager
def deaf():
    """A place where packets are dropped: a queue of connections that is full, and stays so."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield Place(*listener.getsockname())
        for one in waiting:
            one.close()


def test_RDY_02_ranks_that_come_first_are_registered_once_the_directory_is_there(sqlite_backend, tmp_path):
    port = free_port()
    plane = ControlPlane.at(f"127.0.0.1:{port}")
    clients = [Client(plane, token="launch-1") for _ in range(2)]
    process = Bootstrap(sqlite_backend.env, log=tmp_path / "log", kv_port=port, PDCP_PROBE_NETWORKS="none")
    try:
        kept = [
            client.register([rank_on(41000 + n, attn_tp_size=2, attn_tp_rank=n)]) for n, client in enumerate(clients)
        ]
        eventually(lambda: all("refused" in one.standing.trouble for one in kept))
        # Then somebody listens who drops what comes.
        with serving(lambda heard: RESET, port=port) as dropping:
            eventually(lambda: len(dropping.heard) >= 2, within=GENEROUS)
            assert not any(one.standing.is_registered for one in kept), "meanwhile it says that it is not ready"
            with pytest.raises(TimedOut, match="not registered"):
                kept[0].wait(within=0.1)
        process.start()
        for one in kept:
            one.wait(within=GENEROUS)
        assert ports(clients[0].until_ready(TP1, within=GENEROUS)) == [41000, 41001]
    finally:
        for client in clients:
            client.close()
        if process.started:
            process.kill9()


def test_RDY_04_a_prefill_that_cannot_be_reached_does_not_hold_up_the_requests_of_another(server: Server, tenant):
    with deaf() as b, Client(at(server, tenant), token="launch-1") as client:
        client.register([rank_on(41000)]).wait(within=GENEROUS)
        client.until_ready(TP1, within=GENEROUS)
        failed: list[Exception] = []

        def ask_b() -> None:
            try:
                client.resolve(TP1, place=b, within=5)
            except Exception as problem:
                failed.append(problem)

        began = time.monotonic()
        threads = [threading.Thread(target=ask_b) for _ in range(10)]
        for thread in threads:
            thread.start()
        slowest = 0.0
        for _ in range(10):
            asked = time.monotonic()
            assert ports(client.resolve(TP1)) == [41000]
            slowest = max(slowest, time.monotonic() - asked)
        for thread in threads:
            thread.join(GENEROUS)
        took = (time.monotonic() - began) / slowness()
        assert slowest / slowness() < 1
        assert len(failed) == 10 and took < 10
        assert all(isinstance(one, Unreachable) and one.status == 503 and str(b) in one.sentence for one in failed)
        # The next one is told at once, and the place is asked again in a moment.
        asked = time.monotonic()
        with pytest.raises(Unreachable, match=str(b)):
            client.resolve(TP1, place=b, within=5)
        assert (time.monotonic() - asked) / slowness() < 4


def test_HLT_01_a_failure_of_the_old_launch_drops_that_one_and_the_next_look_up_finds_the_new_ports(
    watch, ranks: Ranks
):
    one: Server = watch("a")
    old, new = (sorted(ranks.open() for _ in range(2)) for _ in range(2))

    def start(launch: str, on: list[int]) -> Client:
        client = Client(at(one, "a"), token=launch)
        client.register([rank_on(port, attn_tp_size=2, attn_tp_rank=n) for n, port in enumerate(on)]).wait(
            within=GENEROUS
        )
        return client

    first = start("launch-1", old)
    with Client(at(one, "a"), token="decode", max_age=3600) as decode:
        before = decode.until_ready(TP1, within=GENEROUS)
        assert ports(before) == old
        first.close()
        ranks.die(*old)
        second = start("launch-2", new)
        # It is not asked again by itself so soon: the first request after the swap meets a rank that refuses.
        assert ports(decode.resolve(TP1)) == old
        assert decode.invalidate(before)
        seen: list[list[int]] = []

        def resolved() -> bool:
            try:
                found = decode.resolve(TP1)
            except NotReady:
                return False
            seen.append(ports(found))
            if seen[-1] != new:
                decode.invalidate(found)
            return seen[-1] == new

        # Until all who poll /health were told, it is 503; never the old ports with the new ones.
        eventually(resolved, within=80)
        assert all(one in (old, new) for one in seen)
        # Another thread's request of the old launch fails now: what is newer stays.
        assert not decode.invalidate(before)
        assert ports(decode.resolve(TP1)) == new
        second.close()
