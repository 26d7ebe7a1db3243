"""A drain, while every process of ours is killed at every step: it goes on, and is never called drained before its time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cases.ranks import Ranks
from tests.doubles.engine import Engine
from tests.doubles.gateway import Gateway
from tests.supervisor.conftest import Up
from tests.support.operator import Operator, make_token
from tests.wire.client import rank

PARTS = {"bootstrap": "manage.py bootstrap", "web": "manage.py web", "celery": "celery", "redis": "-server"}
STEPS = ("begun", "acknowledged", "emptied", "drained")
FLEET = "prefill-a"


class Scene:
    """`manage.py up`, a prefill that listens, its engine with one request in flight, and a gateway that chooses."""

    def __init__(self, data_dir: Path, stack: ExitStack) -> None:
        self.up = Up(data_dir, PDCP_PROBE_INTERVAL_SECONDS=0.5)
        stack.callback(self.up.close)
        self.up.wait_ready()
        listening = Ranks()
        stack.callback(listening.close)
        self.engine = Engine("prefill").start()
        stack.callback(self.engine.stop)
        kv = f"http://127.0.0.1:{self.up.ports['PDCP_KV_PORT']}/i/{FLEET}/route"
        body = rank(rank_ip="127.0.0.1", rank_port=listening.open())
        assert httpx.put(kv, json=body, trust_env=False).status_code == 200
        self.operator = Operator(self.up.web, make_token(self.up.env, "ann", "read", "operate"), FLEET)
        version = self.operator.until(f"instances/{FLEET}", lambda said: said["complete"])["version"]
        told = {"engine_url": self.engine.url, "reason": "because a test asks"}
        self.operator.ask("PATCH", f"instances/{FLEET}", json=told, headers={"if-match": f'"{version}"'})
        self.gateway = Gateway("gate", self.up.web, make_token(self.up.env, "gate", "read", "gateway")).start()
        stack.callback(self.gateway.stop)
        self.operator.until("gateways?limit=10", lambda said: bool(said["items"]))

    def kill(self, part: str) -> None:
        """And wait until whoever it was is there again."""
        victim = self.up.child(PARTS[part])
        victim.kill()
        until(lambda: (again := self._child(part)) is not None and again != victim.pid)
        until(lambda: ready(f"{self.up.web}/readyz"))

    def _child(self, part: str) -> int | None:
        try:
            return self.up.child(PARTS[part]).pid
        except AssertionError:
            return None


def ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=10, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def killed_at(scene: Scene, victims: dict[str, str]) -> None:
    """One drain from its beginning to its end; at each step that is named, that process dies."""
    operator, engine = scene.operator, scene.engine

    def die(step: str) -> None:
        if step in victims:
            scene.kill(victims[step])

    engine.counts[0].inflight = 1
    number = operator.act("drain", status=202)["operation"].removeprefix("drain-")
    path = f"drains/{number}"
    die("begun")
    operator.until("gateways/gate", lambda said: said["behind"] == 0)
    die("acknowledged")
    # Whoever was killed looks again; what is in flight still blocks.
    seen = operator.get(path)["checked_at"]
    still = operator.until(path, lambda said: said["checked_at"] != seen and said["readings"])
    assert still["progress"] == "waiting" and not still["safe_to_delete"] and still["blockers"]
    engine.counts[0].inflight = 0
    die("emptied")
    drained = operator.until(path, lambda said: said["progress"] == "drained")
    assert drained["safe_to_delete"] and not drained["blockers"]
    die("drained")
    again = operator.until(path, lambda said: said["checked_at"] != drained["checked_at"])
    assert again["progress"] == "drained" and again["safe_to_delete"]
    operator.act("uncordon")
    until(lambda: scene.operator.get(f"instances/{FLEET}")["intent"] == "enabled")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        made = Scene(tmp_path / "data", stack)
        yield made
        print(f"--- manage.py up ---\n{made.up.output[-10000:]}")


@pytest.mark.timeout(400)
def test_every_process_is_killed_once_on_the_way_and_the_drain_ends_as_if_nothing_had_been(scene: Scene):
    parts = list(PARTS)
    random.Random(3).shuffle(parts)
    killed_at(scene, dict(zip(STEPS, parts, strict=True)))


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS)
def test_each_process_is_killed_at_every_step_of_a_drain(scene: Scene, part: str):
    for step in STEPS:
        killed_at(scene, {step: part})
