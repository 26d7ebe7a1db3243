"""A minute in which everything around a decode dies again and again: the relay, the control plane, the engine. What it is told is
always one launch's, never two mixed, and in the end all know the same."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.client import Client
from tests.workers.relay.engines import Engine
from tests.workers.relay.relays import Relay
from tests.workers.relay.test_kill9 import Writer, found
from tests.workers.sdk.plane import RealPlane, real_plane
from tests.workers.sdk.waiting import soon_here

SECONDS, TP = 60.0, 3


class Decode(threading.Thread):
    """Asks for all ranks and polls /health, over and over, and drops what it has when it is told to, as SGLang's decode does."""

    def __init__(self, relay: Relay, end: threading.Event) -> None:
        super().__init__(daemon=True)
        self.relay, self.end = relay, end
        self.told: list[tuple[int, ...]] = []
        self.pace = 0.02

    def run(self) -> None:
        client, held, misses = self.relay.client(keep=True), dict[int, int](), 0
        while not self.end.wait(self.pace):
            try:
                misses = 0 if client.health() == 200 else misses + 1
                if misses >= 2:
                    held = {}
                tp = random.randrange(TP)
                answer = client.slot(tp=tp) if tp not in held else None
            except (OSError, http.client.HTTPException):
                client = self.relay.client(keep=True)
                continue
            if answer is not None and answer.status == 200:
                held[tp] = answer.json()["rank_port"]
            if len(held) == TP:
                self.told.append(tuple(held[n] for n in range(TP)))


@pytest.fixture
def plane(sqlite_template: Path, tmp_path: Path) -> Iterator[RealPlane]:
    knobs = {"PDCP_PROBE_NETWORKS": "127.0.0.0/8", "PDCP_PROBE_INTERVAL_SECONDS": 0.5}
    with real_plane(sqlite_template, tmp_path, web=False, **knobs) as started:
        yield started


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_decode_is_told_is_one_launch_whatever_dies(plane, tmp_path, seed):
    dice, end = random.Random(seed), threading.Event()
    relay = Relay(tmp_path, f"127.0.0.1:{plane.bootstrap.kv_port}", "prefill-c").start()
    launches, away = [], False
    decode, writer = Decode(relay, end), Writer(relay, 1_000_000, end)
    engine = Engine(tmp_path, relay.address, tp=TP)
    launches.append(tuple(engine.ports))
    try:
        decode.start()
        writer.start()
        over = time.monotonic() + SECONDS
        while time.monotonic() < over:
            time.sleep(dice.uniform(0.5, 4.0))
            match dice.choice(["relay", "relay", "control plane", "engine", "rank"]):
                case "relay":
                    relay.restart()
                case "control plane":
                    (plane.bootstrap.start if away else plane.bootstrap.kill9)()
                    away = not away
                case how:
                    if how == "rank":
                        engine.kill_rank(dice.randrange(TP))
                        time.sleep(dice.uniform(0, 1))
                    engine.end()
                    engine = Engine(tmp_path, relay.address, tp=TP)
                    launches.append(tuple(engine.ports))
                    assert 0 not in engine.ports, "a rank gave up registering"
        if away:
            plane.bootstrap.start()
        relay.until_together()
        direct = Client(plane.bootstrap.kv_port, headers={"X-PD-Instance": "prefill-c"})
        for client in (direct, relay.client()):
            soon_here(lambda client=client: ports(client) == launches[-1])
        last = len(decode.told)
        soon_here(lambda: decode.told[last:] and decode.told[-1] == launches[-1])
    finally:
        end.set()
        engine.end()
        relay.kill9()
        print(f"{len(launches)} launches, {len(writer.acknowledged)} rooms, {len(decode.told)} looks")
        print(relay.text()[-12_000:])
    assert set(decode.told) <= set(launches), "ranks of two launches were mixed"
    recent = writer.acknowledged[-2000:]
    writer.acknowledged = recent
    assert found(direct, [writer]) == set()


def ports(client: Client) -> tuple[int, ...] | None:
    answers = [client.slot(tp=n) for n in range(TP)]
    return tuple(a.json()["rank_port"] for a in answers) if all(a.status == 200 for a in answers) else None
