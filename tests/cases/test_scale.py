"""Public reports: storms of look-ups and registrations."""

import json
import resource
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases.ranks import Ranks, eventually
from tests.support.machine import slowness
from tests.support.processes import Bootstrap, Child
from tests.wire.client import Client
from tests.wire.conftest import Server
from tests.wire.operators import rows


@pytest.mark.parametrize("keep", [True, False], ids=["keep-alive", "a connection each"])
def test_SCL_01_a_storm_of_queries_starves_no_registration_and_gets_no_error(server: Server, tenant, keep):
    assert server.kv(tenant).bind(0, 0).status == 200
    stop = threading.Event()
    unresolved = list(range(10**9, 10**9 + 50))
    wrong: list[object] = []
    asked = [0]

    def storm(_: int) -> None:
        client = server.kv(tenant, keep=keep)
        while not stop.is_set():
            answer = client.find(*unresolved)
            asked[0] += 1
            if answer.status not in (200, 429, 503) or (keep and answer.json() != {}):
                wrong.append(answer)

    with ThreadPoolExecutor(8) as pool:
        for n in range(8):
            pool.submit(storm, n)
        client = server.kv(tenant, keep=True)
        slowest = 0.0
        for room in range(1, 300):
            began = time.monotonic()
            assert client.bind(room, 0).status == 200
            slowest = max(slowest, time.monotonic() - began)
        stop.set()
    assert not wrong, wrong[:3]
    assert asked[0] > 300 and slowest / slowness() < 1, f"{asked[0]} queries, slowest registration {slowest:.2f} s"
    assert len(client.find(*range(300)).json()) == 300


class Few(Bootstrap):
    """A process that may have no more than 1024 descriptors."""

    def launch(self) -> Bootstrap:
        command = f"ulimit -n 1024 && exec {sys.executable} manage.py bootstrap"
        self._child = Child(["sh", "-c", command], env=self.env, log=self.log_path)
        return self


def test_SCL_02_with_few_descriptors_it_warns_and_past_them_the_longest_idle_go_and_everybody_is_answered(
    sqlite_backend, tmp_path
):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"only {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    process = Few(sqlite_backend.env, log=tmp_path / "few", PDCP_PROBE_NETWORKS="none").start()
    idle: list[Client] = []
    try:
        assert "few_descriptors" in process.log() and "ulimit -n" in process.log()
        kv = Client(process.kv_port)
        assert kv.put().status == 200
        for number in range(1200):
            idle.append(Client(process.kv_port, keep=True))
            assert idle[-1]("GET", "/health").status == 200, "whoever comes is let in, and answered"
            if number % 100 == 0:
                assert kv.topology().status == 200 and kv.bind(number, 0).status == 200
        ready = kv("GET", "/readyz")
        assert ready.status == 200 and ready.json()["connections"] <= 1024 - 2 * 128
        # Who was closed comes again, as every decode does; and whoever goes makes room.
        assert Client(process.kv_port)("GET", "/health").status == 200
        for client in idle:
            client.close()
        eventually(lambda: kv("GET", "/readyz").json()["connections"] < 20)
        assert len(process.log().splitlines()) < 50, process.log()[-3000:]
    finally:
        process.kill9()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.timeout(300)
def test_SCL_04_1024_ranks_register_while_probes_and_rooms_are_written_and_a_second_process_waits(
    watch, tmp_path, ranks: Ranks
):
    one: Server = watch()
    waiting = Bootstrap(one.process.env, log=tmp_path / "second", kv_port=one.process.kv_port).launch()
    waiting.wait_standing_by()
    names = [f"inst-{n}" for n in range(16)]
    puts = [
        (name, {"attn_tp_size": 8, "attn_tp_rank": tp, "attn_dp_size": 8, "attn_dp_rank": dp})
        for name in names
        for dp in range(8)
        for tp in range(8)
    ]
    bodies = [(name, {**facts, "rank_ip": "127.0.0.1", "rank_port": ranks.open()}) for name, facts in puts]
    stop = threading.Event()
    bound: list[float] = []

    def bind_rooms() -> None:
        client, room = one.kv("inst-0", keep=True), 0
        while not stop.is_set():
            began = time.monotonic()
            assert client.bind(room, 0).status == 200
            bound.append(time.monotonic() - began)
            room += 1
            time.sleep(0.005)

    def register(part: int) -> list[int]:
        client = one.kv(keep=True)
        statuses = []
        for name, facts in bodies[part::16]:
            client.headers = {"X-PD-Instance": name}
            statuses.append(client.put(**facts).status)
        return statuses

    binder = threading.Thread(target=bind_rooms)
    binder.start()
    began = time.monotonic()
    try:
        with ThreadPoolExecutor(16) as pool:
            statuses = [status for part in pool.map(register, range(16)) for status in part]
        took = time.monotonic() - began
        eventually(lambda: all(one.kv(name).topology().status == 200 for name in names), within=60)
    finally:
        stop.set()
        binder.join()
        waiting.kill9()
    assert statuses == [200] * 1024
    assert took / slowness() < 10, f"1,024 registrations took {took:.1f} s"
    assert max(bound) / slowness() < 2, f"the slowest of {len(bound)} rooms took {max(bound):.2f} s"
    assert rows(one.backend, "SELECT count(*) FROM controlplane_rank WHERE left_at IS NULL") == [(1024,)]
    flips = rows(one.backend, "SELECT instance FROM controlplane_event WHERE kind = 'launch.completed' ORDER BY 1")
    assert sorted(name for (name,) in flips) == sorted(names)
    turned = rows(one.backend, "SELECT data FROM controlplane_event WHERE kind = 'health.turned'")
    assert turned == [], [json.loads(data) for (data,) in turned][:2]
