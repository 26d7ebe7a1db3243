"""A relay that is killed again and again under traffic: what it acknowledged is there, and the control plane hears of it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator

import pytest

from tests.wire.client import Client
from tests.workers.relay.engines import Engine
from tests.workers.relay.relays import Relay
from tests.workers.sdk.plane import real_plane
from tests.workers.sdk.waiting import soon_here

KILLS = 4
WRITERS = 3


class Writer(threading.Thread):
    """Binds one room after another, as a prefill does; what was not acknowledged is tried again."""

    def __init__(self, relay: Relay, first: int, end: threading.Event) -> None:
        super().__init__(daemon=True)
        self.relay, self.next, self.end = relay, first, end
        self.acknowledged: list[int] = []

    def run(self) -> None:
        client = self.relay.client(keep=True)
        while not self.end.is_set():
            try:
                answer = client.bind(self.next, 0)
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
                continue
            if answer.status == 200:
                self.acknowledged.append(self.next)
                self.next += 1


@pytest.fixture
def plane(sqlite_template, tmp_path) -> Iterator[object]:
    with real_plane(sqlite_template, tmp_path, web=False) as started:
        yield started


def test_nothing_that_was_acknowledged_is_lost_and_the_control_plane_hears_of_all_of_it(plane, tmp_path):
    relay = Relay(tmp_path, f"127.0.0.1:{plane.bootstrap.kv_port}", "prefill-k").start()
    end = threading.Event()
    writers = [Writer(relay, 1_000_000 * n, end) for n in range(1, WRITERS + 1)]
    try:
        with Engine(tmp_path, relay.address, tp=2) as engine:
            for writer in writers:
                writer.start()
            for kill in range(KILLS):
                known = sum(len(writer.acknowledged) for writer in writers)
                soon_here(lambda known=known: sum(len(writer.acknowledged) for writer in writers) >= known + 60)
                if kill == 1:
                    plane.bootstrap.kill9()
                relay.restart()
                assert found(relay.client(), writers) == set(), "acknowledged, and not there after a kill"
                assert [relay.client().slot(tp=n).json()["rank_port"] for n in range(2)] == engine.ports
            plane.bootstrap.start()
            end.set()
            for writer in writers:
                writer.join(10)
            relay.until_together()
            direct = Client(plane.bootstrap.kv_port, headers={"X-PD-Instance": "prefill-k"})
            assert found(direct, writers) == set(), "acknowledged here, and never told to the control plane"
            assert direct.topology().status == 200
    finally:
        end.set()
        relay.kill9()
        print(relay.text()[-4000:])


def found(client: Client, writers: list[Writer]) -> set[int]:
    """The rooms that were acknowledged and are not found."""
    rooms = [room for writer in writers for room in list(writer.acknowledged)]
    return set(rooms) - {int(room) for room in client.find(*rooms).json()}
