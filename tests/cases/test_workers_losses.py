"""Public reports, the workers' half: a prefill that dies, is drained, or cannot be asked costs nobody else anything."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.cases.ranks import eventually
from tests.cases.test_workers_reaching import GENEROUS, TP1, ports, rank_on
from tests.support.machine import slowness
from tests.support.processes import Bootstrap, manage
from tests.workers.agent.pairs import Leg, pair, prompts
from tests.workers.agent.processes import MINT, Agent
from tests.workers.outage.scene import at
from workers.sdk import AsyncClient, Client, ControlPlane, Overloaded, Rank, Unreachable, WorkerError

IN_FLIGHT = 20


@pytest.fixture
def directory(sqlite_backend, make_bootstrap) -> Bootstrap:
    return make_bootstrap(sqlite_backend).start()


@pytest.fixture
def quiet(sqlite_backend, make_bootstrap) -> Bootstrap:
    """It probes nobody: its ranks are made up."""
    return make_bootstrap(sqlite_backend, PDCP_PROBE_NETWORKS="none").start()


@pytest.mark.timeout(180)
def test_HLT_04_requests_of_a_dead_prefill_fail_soon_and_name_it_and_its_decode_goes_on_with_the_other(
    directory, tmp_path
):
    kv = f"127.0.0.1:{directory.kv_port}"
    # The time that a request has is not what ends it.
    how = ("--timeout", "120")
    a = Agent(tmp_path / "a.log", "prefill", "--kv", kv, "--instance", "a", "--tp", "2", *how)
    decode = Agent(tmp_path / "decode.log", "decode", *how)
    threads = ThreadPoolExecutor(IN_FLIGHT + 1)
    try:
        # B lives in this process: nothing of what happens to A may depend on where it runs.
        with pair(at(f"b:x@{kv}"), prefill={"instance": "b"}) as b:
            a.ready()
            decode.ready()

            def body(instance: str) -> dict:
                return {
                    "input_ids": prompts(1, seed=4)[0],
                    "bootstrap_room": MINT.room(),
                    "bootstrap_host": f"{instance}:x@127.0.0.1",
                    "bootstrap_port": directory.kv_port,
                    "sampling_params": {"max_new_tokens": 4},
                }

            def served_by_b() -> None:
                assert decode.get("/health").status_code == 200, "it is not the decode that died"
                asked = body("b")
                leg = Leg(b.prefill.serve, b.request(asked["input_ids"], room=asked["bootstrap_room"], count=4))
                assert decode.post("/generate", asked).status_code == 200
                leg.end()

            ended: list[float] = []
            legs = [threads.submit(decode.post, "/generate", body("a"), timeout=150) for _ in range(IN_FLIGHT)]
            for leg in legs:
                leg.add_done_callback(lambda _: ended.append(time.monotonic()))
            eventually(lambda: decode.open_rooms() == IN_FLIGHT, within=GENEROUS)
            # They began before this one, and it goes all the way.
            served_by_b()
            slow = slowness()
            assert not ended
            a.child.kill9()
            died, served = time.monotonic(), 0
            while not all(leg.done() for leg in legs) or served < 3:
                served_by_b()
                served += 1
            said = [leg.result() for leg in legs]
            assert {answer.status_code for answer in said} == {503}
            sentences = [answer.json()["error"]["message"] for answer in said]
            assert all("did not come from a: " in one for one in sentences), sentences
            assert any("a: prefill rank " in one and " is gone: it hung up" in one for one in sentences), sentences
            assert max(ended) - died < 8 * max(slow, slowness()), "nobody waits for who is gone"
            assert decode.open_rooms() == 0 and decode.get("/health").status_code == 200
    finally:
        threads.shutdown(wait=False)
        for agent in (a, decode):
            agent.child.kill9()


def test_HLT_13_a_worker_hears_of_its_drain_and_what_is_left_at_the_limit_is_aborted_on_both_sides(
    directory, sqlite_backend
):
    rooms, settings = 12, {"instance": "a", "pages": 256}
    with pair(directory, prefill=settings, timeout=120.0) as both:
        keeper = both.prefill._standing
        assert keeper is not None
        prompt = prompts(1, seed=5, longest=8)[0]
        # Transfers that last: nobody computes while this is held.
        with both.prefill.groups[0].lock:
            requests = [both.request(prompt) for _ in range(rooms)]
            legs = [Leg(side.serve, one) for one in requests for side in (both.prefill, both.decode)]
            eventually(lambda: len(both.prefill.desk._works) == len(both.decode.desk._works) == rooms, within=GENEROUS)
            drain = manage("drain", "a", "--reason", "because a test asks", env=sqlite_backend.env)
            assert drain.returncode == 0, drain.stdout + drain.stderr
            eventually(lambda: keeper.standing.draining, within=GENEROUS)
            assert both.prefill.desk.open_rooms() == {0: rooms}, "a drain by itself ends nothing"
            began = time.monotonic()
            assert both.prefill.desk.abort("", "the limit of the drain is over") == rooms
        problems = []
        for leg in legs:
            with pytest.raises(WorkerError) as failed:
                leg.end()
            problems.append(failed.value)
        assert (time.monotonic() - began) / slowness() < 5
        assert all("the limit of the drain is over" in one.sentence for one in problems), problems
        assert both.prefill.desk.open_rooms() == {0: 0} and both.decode.desk.open_rooms() == {0: 0}
        # It may be cancelled: the worker hears that too, and serves.
        back = manage("drain", "a", "--cancel", "--reason", "because a test asks", env=sqlite_backend.env)
        assert back.returncode == 0, back.stdout + back.stderr
        eventually(lambda: not keeper.standing.draining, within=GENEROUS)
        assert both.ask(prompt) == both.expected(prompt)


def test_OPS_06_a_control_plane_that_is_down_costs_a_worker_a_few_lines_however_many_ranks_retry(caplog):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        # Bound, and nobody listens: refused for as long as this lasts.
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        plane = ControlPlane.at(address, api=f"http://{address}", instance="a")
        with Client(plane, token="launch-1") as client:
            kept = client.register(
                [rank_on(41000 + n, attn_tp_size=32, attn_tp_rank=n) for n in range(32)], lease_seconds=3
            )
            for room in range(1000):
                client.note(room, "a", "resolved")
            eventually(lambda: "refused" in kept.standing.trouble, within=GENEROUS)
            # Several rounds of all 32, of the reports and of the ledger.
            time.sleep(4)
            assert not kept.standing.is_registered
            assert client._client.reports is not None and client._client.reports.waiting == 1000
    lines = [record for record in caplog.records if record.name.startswith("workers.")]
    assert 1 <= len(lines) <= 6, [record.getMessage() for record in lines]
    assert any(address in record.getMessage() for record in lines), "the first has all there is to say"


@contextmanager
def accepting_nobody(port: int) -> Iterator[None]:
    """A listener whose queue of connections is full, and stays so."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield
        for one in waiting:
            one.close()


@pytest.mark.timeout(120)
async def test_SCL_06_while_nobody_is_let_in_what_is_known_serves_on_and_the_rest_fails_within_its_budget(quiet):
    plane = ControlPlane.at(f"127.0.0.1:{quiet.kv_port}")
    async with AsyncClient(ControlPlane.at(f"127.0.0.1:{quiet.kv_port}", instance="a"), max_age=0.2) as client:
        keeper = await client.register([Rank(rank_ip="127.0.0.1", rank_port=41000, page_size=64)])
        await keeper.registered(within=GENEROUS)
        assert ports(await client.until_ready(TP1, instance="a", within=GENEROUS)) == [41000]
        await asyncio.to_thread(quiet.kill9)
        with accepting_nobody(quiet.kv_port):
            # What is known is too old to be used unasked.
            await asyncio.sleep(0.3)
            began = time.monotonic()
            of_b = [asyncio.create_task(client.resolve(TP1, instance="b", within=5)) for _ in range(1000)]
            of_a = [asyncio.create_task(client.resolve(TP1, instance="a", within=5)) for _ in range(1000)]
            known = await asyncio.gather(*of_a)
            took_a = time.monotonic() - began
            failed = await asyncio.gather(*of_b, return_exceptions=True)
            took_b = time.monotonic() - began
        slow = slowness()
        assert {tuple(ports(one)) for one in known} == {(41000,)} and took_a / slow < 4
        assert all(isinstance(one, (Unreachable, Overloaded)) and one.status == 503 for one in failed)
        assert took_b / slow < 8
        assert any(str(plane.kv) in str(one) for one in failed)
        await asyncio.to_thread(quiet.start)
        with Client(ControlPlane.at(f"127.0.0.1:{quiet.kv_port}", instance="b"), token="launch-2") as b:
            await asyncio.to_thread(b.register([rank_on(42000)]).wait, within=GENEROUS)
            assert ports(await client.until_ready(TP1, instance="b", within=GENEROUS)) == [42000]
            assert ports(await client.until_ready(TP1, instance="a", within=GENEROUS)) == [41000]
