"""The plugin as SGLang finds it: through the real `load_plugins()`, in processes that were really spawned.

One story for all tests: a control plane that is away while ranks are started, and comes back.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import sqlite3
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.workers.sdk.plane import RealPlane, real_plane
from tests.workers.sglang_plugin.engine import Launched

pytestmark = pytest.mark.timeout(300)

HURRY = 0.1
SESSION, TENSORS = "127.0.0.1:15000", {"model.w": [2**63 + 7, 4096, 2], "model.empty": [0, 0, 2]}
SLOT = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")
GENEROUS = 60.0

REPORTED, AUTHORITY = (0, 1), 2
RANKS = (
    {"tp": 0, "of": 2},
    {"tp": 1, "of": 2, "lacks": ["_register_to_engine_info_bootstrap"]},
    {"tp": 0, "of": 1, "env": {"PD_INSTANCE": "authority", "PD_MODE": "authority"}},
)
"""Two ranks of an engine that is reported, and one that registers with us alone."""


@dataclass
class Story:
    plane: RealPlane
    engine: Launched
    operator: dict[str, str]
    registered: dict[int, Any] = field(default_factory=dict)

    def ports(self, instance: str, tps: int) -> list[int] | None:
        """What a decode is told of each rank, or None while somebody is missing."""
        found = []
        for tp in range(tps):
            asked = dict(zip(SLOT, (0, 0, tp, 0), strict=True))
            answer = httpx.get(f"{self.plane.bootstrap.kv_url}/i/{instance}/route", params=asked, trust_env=False)
            if answer.status_code != 200:
                return None
            found.append(answer.json()["rank_port"])
        return found

    def add(self, name: str, **facts: Any) -> None:
        body = {"name": name, "reason": "a test", **facts}
        url = f"{self.plane.web.url}/api/v1/instances"
        answer = httpx.post(url, json=body, headers=self.operator, timeout=30, trust_env=False)
        assert answer.status_code == 201, answer.text

    def read(self, path: str) -> Any:
        answer = httpx.get(f"{self.plane.web.url}/api/v1/{path}", headers=self.operator, timeout=30, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def hurry() -> float:
    """SGLang waits 1, 2, 4 and 8 s between five tries: here a tenth of it."""
    return HURRY


@pytest.fixture(scope="module")
def story(sqlite_template, tmp_path_factory, hurry):
    if importlib.util.find_spec("sglang") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("these tests are about SGLang, which is not installed")
    directory = tmp_path_factory.mktemp("plugin")
    knobs: dict[str, Any] = {"PDCP_PROBE_INTERVAL_SECONDS": 0.5, "PDCP_PROBE_NETWORKS": "127.0.0.0/8"}
    kv, engine_info, web = free_port(), free_port(), free_port()
    started: list[Launched] = []
    token = [""]

    def launch(plane: RealPlane) -> None:
        """While its ranks import SGLang, the control plane comes up."""
        at = {"PD_CONTROL_PLANE": f"127.0.0.1:{kv}", "PD_ENGINE_INFO": f"127.0.0.1:{engine_info}"}
        at |= {"PD_API": f"http://127.0.0.1:{web}", "PD_LEASE_SECONDS": "2", "PD_INSTANCE": "reported"}
        # One for the engines and the operator: each costs a second to make.
        at["PD_TOKEN"] = token[0] = plane.token("all", "register", "report", "engine-info", "read", "operate")
        started.append(Launched(directory / "engine.log", *RANKS, hurry=hurry, **at))

    knobs |= {"kv_port": kv, "engine_port": engine_info, "web_port": web}
    try:
        with real_plane(sqlite_template, directory, first=launch, **knobs) as plane:
            told = Story(plane, started[0], {"authorization": f"Bearer {token[0]}"})
            away_and_back(told)
            yield told
    finally:
        for engine in started:
            engine.stop()
            print(f"--- engine ---\n{engine.log()[-15000:]}")


def away_and_back(story: Story) -> None:
    """All register while the control plane is away, and it comes back."""
    plane, engine = story.plane, story.engine
    story.add("reported")
    story.add("authority")
    plane.bootstrap.kill9()
    engine.ready()
    for rank in (*REPORTED, AUTHORITY):
        engine.tell(rank, "register", port=plane.bootstrap.kv_port)
    for rank in (*REPORTED, AUTHORITY):
        story.registered[rank] = engine.heard(rank)
    plane.bootstrap.start()


def test_a_rank_that_gave_up_is_registered_by_the_plugin_when_the_control_plane_is_back(story, hurry):
    told = [story.registered[rank] for rank in REPORTED]
    assert all(one["took"] >= 11 * hurry for one in told), "SGLang itself tried five times"
    assert story.engine.log().count("failed to register to bootstrap server after 5 retries") == 2
    eventually(lambda: story.ports("reported", 2) == [one["port"] for one in told])


def test_a_rank_that_registers_with_us_alone_starts_at_once_however_long_we_are_away(story):
    # Measured beside those that wait, on the same machine at the same time: none of their pauses is in it.
    assert story.registered[AUTHORITY]["took"] < 0.5 * min(story.registered[rank]["took"] for rank in REPORTED)
    eventually(lambda: story.ports("authority", 1) == [story.registered[AUTHORITY]["port"]])


def test_all_processes_of_a_launch_have_one_token_and_each_rank_keeps_a_lease(story):
    minted = story.engine.launched()["token"]
    assert minted and {story.registered[rank]["token"] for rank in (*REPORTED, AUTHORITY)} == {minted}

    def kept() -> bool:
        workers = story.read("instances/reported/workers")["items"]
        return [worker["token"] for worker in workers if not worker["late"]] == [minted, minted]

    eventually(kept)
    launch = story.read("instances/reported")["launch"]
    assert (launch["token"], launch["number"]) == (minted, 1), "no rank made a launch of its own"


def test_weights_are_told_exactly(story):
    # Its own server is not there: SGLang says so, and goes on.
    story.engine.ask(AUTHORITY, "weights", port=1, session=SESSION, tensors=TENSORS)
    url = f"{story.plane.bootstrap.engine_url}/i/authority/get_transfer_engine_info?rank=0"

    def published() -> Any:
        answer = httpx.get(url, trust_env=False)
        return answer.json() if answer.status_code == 200 else None

    assert eventually(published) == {"rank": 0, "remote_instance_transfer_engine_info": [SESSION, TENSORS]}


def test_a_failure_is_told_by_the_rank_that_knows_why(story):
    said = story.engine.ask(0, "fails", port=1, room=7_000_001, reason="no KV: the decode is gone")
    assert "the decode is gone" in said, "SGLang hears its own error"

    def told() -> Any:
        explained = story.read("explain/room/7000001")
        return explained if explained["conclusion"]["kind"] == "failed" else None

    assert "the decode is gone" in json.dumps(eventually(told))


def test_how_many_rooms_are_open_is_told_so_that_a_drain_can_end(story):
    """By the first rank of a DP group, zeros too; who asks for them is the drain's own test."""

    def told() -> bool:
        with contextlib.closing(sqlite3.connect(story.plane.backend.data_dir / "controlplane.sqlite3")) as facts:
            rows = facts.execute('SELECT instance, kind, "group", open_rooms FROM controlplane_openrooms').fetchall()
        return sorted(rows) == [("authority", "worker", 0, 0), ("reported", "worker", 0, 0)]

    eventually(told)


def test_a_place_that_this_version_lacks_is_said_once_and_the_rest_works(story):
    said = [line for line in story.engine.log().splitlines() if "this SGLang has no" in line]
    assert len(said) == 1 and said[0].endswith("_register_to_engine_info_bootstrap: weights are not published")
    assert story.ports("reported", 2) == [story.registered[rank]["port"] for rank in REPORTED]


def test_a_process_that_ends_is_not_held_up_by_a_control_plane_that_hangs(story):
    story.plane.bootstrap.freeze()
    story.plane.web.child.freeze()
    try:
        assert story.engine.end(AUTHORITY) == 0
    finally:
        story.plane.bootstrap.thaw()
        story.plane.web.child.thaw()
    (took,) = re.findall(r"^CLOSED IN (\S+)$", story.engine.log(), re.M)
    assert float(took) / slowness() < 1.0


def test_a_filter_that_names_other_plugins_leaves_it_alone(story):
    assert story.engine.launched()["found"] == ["pd_control_plane"]
    assert story.engine.launched()["filtered"] == []


def eventually(true: Any) -> Any:
    end = time.monotonic() + GENEROUS
    while not (said := true()):
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.05)
    return said
