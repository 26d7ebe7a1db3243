"""The plugin's own thread: nobody waits for it, it is bounded, ends in time, and a forked process has one of its own."""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Any

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from workers.sdk import Client, ControlPlane, WorkerError
from workers.sglang_plugin.background import Background


class Idle:
    """A client that does nothing, and takes as long to close as it is told."""

    def __init__(self) -> None:
        self.closed: list[float | None] = []

    def close(self, *, within: float | None = None) -> None:
        self.closed.append(within)


def test_work_is_done_in_order_on_a_thread_of_its_own_and_its_errors_stay_there(caplog):
    done: queue.Queue[Any] = queue.Queue()
    background = Background(Idle)

    def refused(_: Any) -> None:
        raise WorkerError("the address means nothing")

    def broken(_: Any) -> None:
        raise ZeroDivisionError

    for work in (refused, refused, broken, lambda _: done.put(threading.current_thread().name)):
        assert background.do(work, "telling")
    assert done.get(timeout=30) == "pd-plugin"
    said = [record.getMessage() for record in caplog.records]
    assert said.count("telling: the address means nothing") == 1, "once"
    assert any("serving goes on" in line for line in said)


def test_nobody_waits_however_much_there_is_and_what_is_too_much_is_counted():
    gate, begun = threading.Event(), threading.Event()
    background = Background(Idle, most=10)
    background.do(lambda _: (begun.set(), gate.wait(60)), "waiting")
    assert begun.wait(30)
    took = [background.do(lambda _: None, "more") for _ in range(30)]
    assert (took.count(True), background.dropped) == (10, 20)
    gate.set()


def test_a_client_that_cannot_be_made_is_tried_again(monkeypatch):
    monkeypatch.setattr("workers.sglang_plugin.background.PAUSE_SECONDS", 0.01)
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        if len(made) < 3:
            raise OSError("no descriptors")
        return Idle()

    done = threading.Event()
    Background(make).do(lambda _: done.set(), "telling")
    assert done.wait(30) and len(made) == 3


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_begins_anew():
    background, done = Background(Idle), threading.Event()
    background.do(lambda _: done.set(), "telling")
    assert done.wait(30) and background.client is not None
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        fresh = background.client is None
        again = threading.Event()
        background.do(lambda _: again.set(), "telling")
        os.write(write, b"yes" if fresh and again.wait(30) else b"no")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 3) == b"yes"
    assert background.client.closed == []


def test_closing_is_over_in_a_second_with_a_control_plane_that_nobody_answers_for():
    port = free_port()
    plane = ControlPlane.at(f"127.0.0.1:{port}", api=f"http://127.0.0.1:{port}", instance="p")
    background = Background(lambda: Client(plane, watch=False))
    done = threading.Event()
    background.do(lambda client: (client.note(7, "p", "registered"), done.set()), "telling")
    assert done.wait(30)
    begun = time.monotonic()
    background.close()
    background.close()
    assert not background.do(lambda _: None, "too late")
    assert (time.monotonic() - begun) / slowness() < 1.0


def test_what_a_request_costs_its_scheduler_is_microseconds():
    """Two notes of a prefill, four of a decode; nobody takes them, and the queue is full."""
    port = free_port()
    client = Client(ControlPlane.at(f"127.0.0.1:{port}", api=f"http://127.0.0.1:{port}", instance="p"), watch=False)
    try:
        for _ in range(3):
            begun = time.thread_time()
            for room in range(5000):
                client.note(room, "p", "registered", detail="dp0")
                client.note(room, "p", "connected", detail="the decode has asked")
            each = (time.thread_time() - begun) / 5000
        assert each < 200e-6, f"{each * 1e6:.0f} µs a request"
        print(f"{each * 1e6:.1f} µs a request")
    finally:
        client.close(within=1.0)
