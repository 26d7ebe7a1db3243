"""Public reports: a control plane that is asked to stop tells first, serves on for a while, and loses nothing."""

import signal
import socket
import time

import httpx
import pytest

from tests.cases.ranks import eventually
from tests.supervisor.conftest import up
from tests.support.ports import is_open
from tests.support.processes import Bootstrap
from tests.wire.client import ALL, Client, rank
from tests.wire.raw import request

__all__ = ["up"]

SHAPE = {"attn_tp_size": 512}


class Doors:
    """What a load balancer, a decode and a worker see of a run."""

    def __init__(self, run) -> None:
        self.web = Client(run.ports["PDCP_WEB_PORT"])
        self.kv, self.engine = Client(run.ports["PDCP_KV_PORT"]), Client(run.ports["PDCP_ENGINE_INFO_PORT"])
        self.one = Client(run.ports["PDCP_KV_PORT"], headers={"X-PD-Instance": "one"})
        self.registered = 0

    def readiness(self) -> list[int]:
        return [door("GET", "/readyz").status for door in (self.web, self.kv, self.engine)]

    def work(self) -> list[int]:
        """Liveness, queries and new registrations, on connections of their own."""
        asked = [door("GET", "/livez").status for door in (self.web, self.kv, self.engine)]
        asked += [self.one.topology().status, self.one.health(), self.web("GET", "/i/one/health").status]
        return [*asked, self.register(self.kv, "/i/many/route"), self.register(self.web, "/i/many/route")]

    def register(self, door: Client, path: str) -> int:
        status = door("PUT", path, js=rank(**SHAPE, attn_tp_rank=self.registered, rank_port=1024 + self.registered))
        self.registered += status.status == 200
        return status.status


def begun(port: int, path: str) -> tuple[socket.socket, bytes]:
    """A request that is under way: its sender has the rest still."""
    whole = request("PUT", path, str(rank(rank_ip="10.0.1.77")).replace("'", '"').encode(), {"Host": "cp"})
    sender = socket.create_connection(("127.0.0.1", port), timeout=60)
    sender.sendall(whole[:-40])
    return sender, whole[-40:]


def stopping(run) -> Doors:
    """Everything works; then it is asked to stop, and says so."""
    doors = Doors(run.wait_ready())
    assert doors.one.put().status == 200
    assert doors.readiness() == [200] * 3 and doors.work() == [200] * 8
    run.signal(signal.SIGTERM)
    eventually(lambda: doors.readiness() == [503] * 3)
    return doors


def test_HLT_11_asked_to_stop_it_is_not_ready_at_once_and_serves_everybody_until_the_end(up):
    run = up(PDCP_STOP_DELAY_SECONDS=5, PDCP_PROBE_NETWORKS="none")
    run.wait_ready()
    ports = [run.ports["PDCP_KV_PORT"], run.ports["PDCP_WEB_PORT"]] * 10
    running = [begun(port, f"/i/slow-{n}/route") for n, port in enumerate(ports)]
    doors = stopping(run)
    assert doors.web("GET", "/readyz").json()["checks"]["process"] == "shutting down"
    assert doors.kv("GET", "/readyz").json()["checks"]["not_stopping"] is False
    for sender, rest in running:
        sender.sendall(rest)
        assert sender.recv(4096).startswith(b"HTTP/1.1 200 OK"), "it had begun before"
        sender.close()
    rounds = 0
    while run.process.poll() is None:
        try:
            assert doors.readiness() == [503] * 3
            assert doors.work() == [200] * 8
        except (OSError, httpx.TransportError):
            break
        rounds += 1
        time.sleep(0.05)
    assert rounds > 3, "new requests came, and were served"
    assert run.wait() == 0 and "Traceback" not in run.output


def test_HLT_11_a_second_signal_ends_the_wait_and_nothing_is_lost(up):
    run = up(PDCP_STOP_DELAY_SECONDS=500, PDCP_PROBE_NETWORKS="none")
    doors = stopping(run)
    assert doors.work() == [200] * 8
    began = time.monotonic()
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    assert time.monotonic() - began < 60 and "child killed" not in run.output
    up(PDCP_PROBE_NETWORKS="none", **run.ports).wait_ready()
    waiting = doors.kv("GET", "/i/many/route", ALL)
    assert f"({doors.registered} workers registered)" in waiting.text
    assert doors.one.topology().status == 200


@pytest.mark.parametrize("seconds", [0.0, 0.4, 0.8, 1.2, 1.6])
def test_HLT_11_a_signal_during_the_start_is_honoured(sqlite_backend, tmp_path, seconds):
    """Whatever it does then: before it listens, or a moment after."""
    process = Bootstrap(sqlite_backend.env, log=tmp_path / "log", PDCP_STOP_DELAY_SECONDS=0).launch()
    time.sleep(seconds)
    assert process.terminate(60) in (0, -signal.SIGTERM)
    assert not is_open(process.kv_port) and "Traceback" not in process.log()
