"""One operator's day through the API, with ranks of the real SGLang: register, judge, drain, restart, bring back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.engine import Engine
from tests.doubles.gateway import Gateway
from tests.supervisor.conftest import Up
from tests.support.operator import GENEROUS_SECONDS, Operator, make_token


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Up]:
    started = Up(tmp_path / "data", PDCP_PROBE_INTERVAL_SECONDS=0.5)
    try:
        yield started.wait_ready()
    finally:
        started.close()
        print(f"--- manage.py up ---\n{started.output[-10000:]}")


@pytest.mark.timeout(300)
def test_a_prefill_is_judged_drained_restarted_and_brought_back(run, sglang):
    kv = run.ports["PDCP_KV_PORT"]
    operator = Operator(run.web, make_token(run.env, "story", "read", "resolve", "operate"), "default")
    decode = Engine("decode").start()
    engine = Engine("prefill", dp=2, bootstrap_port=kv).start()
    gateway = Gateway("gate", run.web, make_token(run.env, "gate", "read", "gateway")).start()
    try:
        facts = sglang.open("operating", port=kv, shape={"dp": 2, "tp": 2})
        assert facts["ready"]
        name_the_engines(operator, engine, decode)
        judged(operator, facts["ports"])
        group_drained_only_when_its_engine_is_empty(operator, engine, gateway)
        launch = whole_instance_drained(operator, engine)
        facts = sglang.go_on()
        old_answer_does_not_hold_for_a_new_launch(operator, launch, facts["ports"])
        operator.act("uncordon")
        brought_back_in_three_ways(operator, kv, sglang)
    finally:
        for server in (gateway, engine, decode):
            server.stop()


def name_the_engines(operator: Operator, engine: Engine, decode: Engine) -> None:
    """What the wire does not say: where the engines answer, and which decodes there are."""
    version = operator.get("instances/default")["version"]
    told = {"engine_url": engine.url, "reason": "the story"}
    operator.ask("PATCH", "instances/default", json=told, headers={"if-match": f'"{version}"'})
    body = {"name": "decode-a", "role": "decode", "engine_url": decode.url, "reason": "the story"}
    operator.ask("POST", "instances", status=201, json=body)


def judged(operator: Operator, ports: list[int]) -> None:
    """Compatibility says what would fail before anybody tries; resolve says everything a decode needs at once."""
    wrong = {"tp_size": 3, "page_size": 32}
    (pair,) = operator.ask("POST", "compatibility?prefill=default", json={"decode": wrong})["items"]
    assert pair["verdict"] == "incompatible"
    assert {"page_size"} <= {finding["field"] for finding in pair["findings"] if finding["fatal"]}
    right = {"tp_size": 2, "page_size": 64}
    refused = operator.ask("POST", "resolve", status=409, json={"instance": "default", "decode": wrong})
    assert "page_size" in refused["detail"] or "TP" in refused["detail"]
    resolved = operator.ask("POST", "resolve", json={"instance": "default", "decode": right})
    targets = [t for rank in resolved["ranks"] for group in rank["groups"] for t in group["targets"]]
    assert sorted({int(target["address"].rpartition(":")[2]) for target in targets}) == ports


def group_drained_only_when_its_engine_is_empty(operator: Operator, engine: Engine, gateway: Gateway) -> None:
    engine.counts[1].inflight = 1
    plan = operator.act("drain?dry_run=true", dp=1)["plan"]
    assert (plan["groups_now"], plan["groups_after"], plan["can_stop_admission"]) == (2, 1, True)
    drain = operator.act("drain", status=202, dp=1)["operation"]
    blocked = operator.until(
        f"operations/{drain}", lambda said: any("still has requests on dp1" in b for b in said["blockers"])
    )
    assert blocked["state"] == "running" and not blocked["safe_to_delete"]
    operator.until("gateways/gate", lambda said: said["behind"] == 0)
    assert {choice.dp for choice in gateway.choices()} <= {0}
    # The other group goes on, and so does the instance.
    assert operator.get("instances/default")["intent"] == "enabled"
    number = drain.removeprefix("drain-")
    still = operator.get(f"drains/{number}")
    assert still["progress"] == "waiting" and still["readings"]
    engine.counts[1].inflight = 0
    drained = operator.until(f"drains/{number}", lambda said: said["progress"] == "drained")
    assert drained["safe_to_delete"] and not drained["blockers"]
    steps = [e["kind"] for e in operator.get("events?instance=default&limit=200")["items"] if "drain" in e["kind"]]
    assert steps[-1] == "drain.started" and "drain.progressed" in steps, "newest first"
    operator.act("uncordon", dp=1)
    until_true(lambda: {choice.dp for choice in gateway.choices()} == {0, 1})


def whole_instance_drained(operator: Operator, engine: Engine) -> int:
    drain = operator.act("drain", status=202)["operation"].removeprefix("drain-")
    drained = operator.until(f"drains/{drain}", lambda said: said["progress"] == "drained")
    assert drained["safe_to_delete"]
    # Rooms in flight would still resolve.
    operator.ask("POST", "resolve", json={"instance": "default", "decode": {"tp_size": 2, "page_size": 64}})
    return int(drained["launch"])


def old_answer_does_not_hold_for_a_new_launch(operator: Operator, launch: int, ports: list[int]) -> None:
    """The instance restarted while drained: what was safe to delete is gone, and the new launch is not it."""

    def is_new(said: Any) -> bool:
        return said["launch"] is not None and said["launch"]["number"] > launch and said["complete"]

    new = operator.until("instances/default", is_new)
    assert new["intent"] == "draining", "intent survives a restart"
    (drain,) = [d for d in operator.get("drains?instance=default")["items"] if d["dp"] is None]
    before = operator.get(f"drains/{drain['id']}")
    assert before["launch"] != launch or not before["safe_to_delete"]
    ranks = operator.get("instances/default/ranks")["items"]
    assert sorted(int(rank["address"].rpartition(":")[2]) for rank in ranks if rank["left_at"] is None) == ports


def brought_back_in_three_ways(operator: Operator, kv: int, sglang: Any) -> None:
    """Unmodified ranks that answer are re-admitted; a worker of ours is told in its heartbeat; nobody there is a sentence."""
    evicted = operator.ended(operator.act("evict", status=202)["operation"])
    assert evicted["state"] == "succeeded"
    assert operator.get("instances/default")["registered"] == 0
    back = operator.ended(operator.act("reregister", status=202)["operation"])
    assert back["state"] == "succeeded", back
    operator.until("instances/default", lambda said: said["complete"])

    beat = {"worker": "w-0", "slots": [[0, 0, 0, 0]], "lease_seconds": 60}
    doors = f"http://127.0.0.1:{kv}/pd/v1/heartbeats"
    assert httpx.post(doors, json=beat, trust_env=False).json()["directives"] == []
    told = operator.ended(operator.act("reregister", status=202)["operation"])
    assert told["state"] == "succeeded" and "heartbeat" in told["sentence"]
    (directive,) = httpx.post(doors, json=beat, trust_env=False).json()["directives"]
    assert directive == {"do": "register", "slots": [[0, 0, 0, 0]]}

    sglang.go_on()
    operator.until("instances/default", lambda said: said["registered"] == 0)
    again = operator.ended(operator.act("readmit", status=202)["operation"])
    assert again["state"] == "refused" and again["sentence"]


def until_true(ask: Callable[[], Any]) -> Any:
    end = time.monotonic() + GENEROUS_SECONDS
    while not (said := ask()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return said
