"""The client for code without an event loop, and the one for code with one: lives, ends, threads and forks."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

from tests.support.machine import slowness
from tests.support.processes import ROOT, clean_env
from tests.workers.sdk.directory import Directory
from tests.workers.sdk.server import HANG
from tests.workers.sdk.test_resolver import TP1, filled
from workers.sdk import AsyncClient, Client, Closed, ControlPlane, Place, Rank, TimedOut

GENEROUS = 30.0


def at(place: Place) -> ControlPlane:
    return ControlPlane(place, place)


def test_ranks_are_kept_registered_while_the_caller_does_nothing_for_it(serve):
    directory = Directory()
    rank = Rank(rank_ip="127.0.0.1", rank_port=41000, page_size=64)
    with Client(at(serve(directory.answer).place)) as client:
        kept = client.register([rank], lease_seconds=1)
        assert kept.wait(within=GENEROUS).is_registered
        directory.restart()
        end = time.monotonic() + GENEROUS
        # This thread is busy; the client's own is not.
        while not directory.rows and time.monotonic() < end:
            sum(range(10_000))
        assert directory.rows


def test_ranks_that_are_released_are_kept_no_longer_and_others_are(serve):
    directory = Directory()
    ranks = [Rank(rank_ip="127.0.0.1", rank_port=port, page_size=64) for port in (41000, 41001)]
    with Client(at(serve(directory.answer).place)) as client:
        released = client.register([ranks[0]], lease_seconds=0.3, worker="w/0", token="other")
        assert released.wait(within=GENEROUS).is_registered
        released.release()
        released.release()
        kept = client.register([ranks[1]], lease_seconds=0.3, worker="w/1")
        assert kept.wait(within=GENEROUS).is_registered
        directory.restart()
        end = time.monotonic() + GENEROUS
        while not directory.rows and time.monotonic() < end:
            time.sleep(0.02)
        assert [row["rank_port"] for row in directory.rows.values()] == [41001]


def test_whoever_is_in_a_hurry_closes_in_time_at_a_server_that_hangs(serve):
    place = serve(lambda heard: HANG).place
    client = Client(ControlPlane(place, place, place), watch=False)
    client.note(7, "p", "registered")
    begun = time.monotonic()
    client.close(within=0.4)
    client.close()
    assert (time.monotonic() - begun) / slowness() < 1.0


def test_many_threads_share_one_client(serve):
    server = serve(filled(tp=2, dp=2).answer)
    problems, found = [], []

    def ask() -> None:
        try:
            resolved = client.resolve(TP1, within=GENEROUS)
            room = client.mint.room(dp_size=2, dp=1)
            client.bind(room, 1, within=GENEROUS)
            found.append((resolved.identity, client.find_rooms([room], within=GENEROUS)[room]))
        except Exception as problem:
            problems.append(problem)

    with Client(at(server.place)) as client:
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GENEROUS)
    assert problems == [] and len(found) == 20 and len(set(found)) == 1


def test_a_call_ends_within_its_bound(serve):
    with Client(at(serve(lambda heard: HANG).place)) as client:
        began = time.monotonic()
        with pytest.raises(TimedOut):
            client.resolve(TP1, within=0.5)
        assert (time.monotonic() - began) / slowness() < 3


def test_a_closed_client_and_a_call_from_its_own_thread_say_so(serve):
    heard = []

    def listen(standing) -> None:
        try:
            client.resolve(TP1)
        except Closed as problem:
            heard.append(problem.sentence)

    client = Client(at(serve(filled().answer).place))
    client.register([Rank(rank_ip="127.0.0.1", rank_port=41000, page_size=64)], on_change=listen).wait(within=GENEROUS)
    client.close()
    client.close()
    assert heard and "its own thread" not in heard[0] and "client's own thread" in heard[0]
    with pytest.raises(Closed, match="was closed"):
        client.resolve(TP1)
    assert not any(thread.name == "pd-sdk" and thread.is_alive() for thread in threading.enumerate())


def test_a_child_that_was_forked_is_told_to_make_its_own(serve):
    with Client(at(serve(filled().answer).place)) as client:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"nothing"
            try:
                client.resolve(TP1)
            except Closed as problem:
                said = problem.sentence.encode()
            finally:
                os.write(writing, said)
                os._exit(0)
        os.waitpid(child, 0)
        assert b"forked from" in os.read(reading, 1000)
        os.close(reading)
        os.close(writing)
        assert client.resolve(TP1, within=GENEROUS)


def test_a_process_that_forgets_to_close_ends_all_the_same():
    code = (
        "from workers.sdk import *\n"
        "client = Client(ControlPlane.at('127.0.0.1:9'))\n"
        "client.register([Rank(rank_ip='127.0.0.1', rank_port=41000, page_size=64)])\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=clean_env(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "Traceback" not in done.stderr and "destroyed" not in done.stderr


async def test_whoever_asks_while_a_client_is_closed_is_told_so_and_is_not_cancelled(serve):
    client = AsyncClient(at(serve(lambda heard: HANG).place))
    asking = asyncio.create_task(client.resolve(TP1, within=GENEROUS))
    await asyncio.sleep(0.1)
    await client.aclose()
    with pytest.raises(Closed, match="closed while it was asked"):
        await asking


async def test_instances_of_one_address_are_asked_about_in_turn_over_one_connection(serve):
    directory = Directory()
    server = serve(directory.answer)
    async with AsyncClient(ControlPlane(server.place, server.place, None, "a")) as client:
        waiting = [
            asyncio.create_task(client.find_rooms([room], instance=name, within=GENEROUS))
            for room, name in enumerate(("a", "b", "c", None), start=1)
        ]
        while len(server.heard) < 8:
            await asyncio.sleep(0.01)
        directory.rooms = dict.fromkeys(range(1, 5), 0)
        assert [await one for one in waiting] == [{room: 0} for room in range(1, 5)]
    assert server.most_at_once == 1 and server.connections == 1
    assert {heard.headers["x-pd-instance"] for heard in server.heard} == {"a", "b", "c"}


async def test_a_client_of_asyncio_belongs_to_its_loop(serve):
    client = AsyncClient(at(serve(filled().answer).place))
    with pytest.raises(Closed, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(client.resolve(TP1)))
    assert await client.resolve(TP1)
    await client.aclose()
    with pytest.raises(Closed):
        await client.resolve(TP1)


def test_the_package_needs_neither_django_nor_torch_nor_a_general_http_client():
    code = (
        "import sys, workers.sdk, workers.collective\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'django', 'torch', 'numpy', 'httpx', 'requests', 'aiohttp', 'mooncake', 'zmq'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
