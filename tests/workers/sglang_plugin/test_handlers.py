"""What the plugin does when SGLang calls it: hand over, never wait, never raise."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workers.sglang_plugin.rows import ROW, Manager
from workers.sglang_plugin import launch
from workers.sglang_plugin.hooks import CONN, DECODE, ENGINE, HOOKS, WEIGHTS, wanted
from workers.sglang_plugin.plugin import Plugin
from workers.sglang_plugin.settings import Mode, read

AT = {"PD_CONTROL_PLANE": "cp.rack:8998"}


def test_only_processes_that_schedule_are_hooked_and_a_server_wherever_it_may_start():
    assert wanted(Mode.REPORT, ["sglang.srt.plugins"]) == []
    assert [hook.does for hook in wanted(Mode.AUTHORITY, ["sglang.srt.plugins"])] == ["no_server"]
    there = {hook.does for hook in wanted(Mode.REPORT, [DECODE])}
    assert {"registered", "committed", "weights"} <= there and "launching" not in there and "no_server" not in there
    beside = {hook.does for hook in wanted(Mode.REPORT, [CONN])}
    assert "registered" in beside and not beside & {"committed", "weights"}, "nothing is imported to be hooked"
    assert {hook.module for hook in HOOKS} >= {CONN, DECODE, WEIGHTS, ENGINE}
    handlers = Plugin(read({**AT, "PD_INSTANCE": "p"})).handlers()
    assert {hook.does for hook in HOOKS} == set(handlers)


def test_what_goes_wrong_in_a_hook_is_not_raised_into_serving():
    plugin = Plugin(read({**AT, "PD_INSTANCE": "p"}))
    hooks, nothing = plugin.handlers(), SimpleNamespace()
    for does in ("sender_opened", "sender_bootstrapped", "receiver_resolved"):
        assert hooks[does](None, nothing) is None
    for does in ("sender_failed", "receiver_failed", "weights"):
        assert hooks[does](lambda subject: "theirs", nothing) == "theirs"
    assert hooks["committed"](lambda queue, request: "theirs", None, nothing) == "theirs"
    assert hooks["registered"](lambda *_: "theirs", nothing, "url", {"not": "a row"}) == "theirs"
    plugin.background.close()


class Background:
    """The plugin's thread, here the caller's: what is handed over is kept, and may be done by `run`."""

    def __init__(self) -> None:
        self.work: list[tuple[Any, str]] = []
        self.said: list[str] = []
        self.client = None

    def do(self, work: Any, what: str) -> bool:
        self.work.append((work, what))
        return True

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


class Client:
    """Takes registrations, and knows which were let go."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.counted: list[str] = []

    def register(self, ranks: Any, **more: Any) -> Any:
        (rank,) = ranks
        kept = {"slot": tuple(rank.slot), "released": False, **more}
        self.kept.append(kept)
        return SimpleNamespace(release=lambda: kept.update(released=True))

    def count_open(self, name: str, count: Any) -> None:
        self.counted.append(name)


@pytest.fixture
def plugin(monkeypatch) -> Plugin:
    """With one node, in a process that a launch started."""
    made = Plugin(read(AT))
    made.background = Background()  # type: ignore[assignment]
    monkeypatch.setattr("workers.sglang_plugin.plugin.nodes", lambda: 1)
    monkeypatch.setattr("workers.sglang_plugin.rows.socket.gethostname", lambda: "gpu-7")
    monkeypatch.setenv("PD_LAUNCH_TOKEN", "t-1")
    monkeypatch.delenv(launch.MINTED, raising=False)
    return made


def done(plugin: Plugin) -> Client:
    client, waiting = Client(), plugin.background.work  # type: ignore[attr-defined]
    for work, _ in waiting:
        work(client)
    waiting.clear()
    return client


def test_a_rank_is_kept_until_its_manager_is_torn_down(plugin):
    ended: list[str] = []
    manager = Manager(teardown=lambda: ended.append("theirs"), request_status={5: 1})
    assert plugin.handlers()["registered"](lambda *_: "theirs", manager, "url", ROW) == "theirs"
    client = done(plugin)
    assert [(kept["slot"], kept["token"]) for kept in client.kept] == [((0, 0, 0, 0), "t-1")]
    assert client.kept[0]["worker"].endswith("/0.0.0.0") and client.counted == ["gpu-7-30000"]
    assert plugin.open_rooms() == {0: 1}
    manager.teardown()
    done(plugin)
    assert ended == ["theirs"] and client.kept[0]["released"] and plugin.open_rooms() == {}


def test_a_listener_of_the_rust_server_keeps_the_rows_of_its_own_group_alone(plugin, monkeypatch):
    """SGLang hands it those of every group: kept here too, a rank that died elsewhere would be registered again for ever."""
    monkeypatch.setattr("workers.sglang_plugin.plugin.http_port", lambda: 30000)
    register, told = plugin.handlers()["registered"], []
    manager = Manager(attn_dp_rank=1, kv_args=SimpleNamespace(rust_http_port=30001))
    for dp in (0, 1):
        for tp in (0, 1):
            at = {
                "attn_dp_size": 2,
                "attn_dp_rank": dp,
                "attn_tp_size": 2,
                "attn_tp_rank": tp,
                "prefill_http_port": 30001,
            }
            register(lambda *_: told.append(1), manager, "url", {**ROW, **at})
    assert [kept["slot"] for kept in done(plugin).kept] == [(1, 0, 0, 0), (1, 0, 1, 0)]
    assert len(told) == 4, "its own registry has all of them"
    assert plugin._name == "gpu-7-30000", "and all listeners are one engine"


def test_of_several_nodes_a_rank_without_a_name_is_not_registered_and_one_without_a_token_is(plugin, monkeypatch):
    monkeypatch.setattr("workers.sglang_plugin.plugin.nodes", lambda: 2)
    monkeypatch.setenv(launch.MINTED, "t-1/1")
    register = plugin.handlers()["registered"]
    register(lambda *_: None, Manager(), "url", {**ROW, "attn_tp_size": 2})
    assert done(plugin).kept == [] and "PD_INSTANCE must be set" in plugin.background.said[0]
    plugin.settings = read({**AT, "PD_INSTANCE": "whole"})
    register(lambda *_: None, Manager(), "url", {**ROW, "attn_tp_size": 2})
    assert [kept["token"] for kept in done(plugin).kept] == [""]
    assert "set PD_LAUNCH_TOKEN" in plugin.background.said[1]


def test_with_authority_nothing_is_asked_of_a_server_that_is_not_there(plugin):
    plugin.settings = read({**AT, "PD_MODE": "authority"})
    asked: list[Any] = []
    plugin.handlers()["registered"](lambda *args: asked.append(args), Manager(), "url", payload=ROW)
    assert asked == [] and len(done(plugin).kept) == 1
    server = SimpleNamespace()
    plugin.handlers()["no_server"](server)
    assert server._loop is None, "its owner closes it as if it ran"


def test_binding_a_room_holds_no_scheduler_up_and_is_bounded(plugin):
    gate, bound = threading.Event(), []

    def slow(sender: Any) -> None:
        gate.wait(60)
        bound.append(sender)

    bind = plugin.handlers()["bound"]
    for room in range(64):
        bind(slow, room)
    assert bound == []
    beside = threading.Thread(target=bind, args=(slow, 64))
    beside.start()
    beside.join(0.05)
    assert beside.is_alive(), "past the bound it waits, as it does without us"
    gate.set()
    beside.join(30)
    end = time.monotonic() + 30
    while len(bound) < 65 and time.monotonic() < end:
        time.sleep(0.01)
    assert sorted(bound) == list(range(65))


def test_the_second_engine_of_a_process_has_a_token_of_its_own(plugin, monkeypatch):
    monkeypatch.setenv(launch.MINTED, f"t-1/{os.getpid()}")
    launching = plugin.handlers()["launching"]
    launching(object)
    assert os.environ["PD_LAUNCH_TOKEN"] == "t-1"
    launching(object)
    assert os.environ["PD_LAUNCH_TOKEN"] != "t-1"


def test_an_engine_that_is_started_by_a_process_of_another_one_has_a_token_of_its_own(plugin, monkeypatch):
    monkeypatch.setenv(launch.MINTED, f"t-1/{os.getppid()}")
    plugin.handlers()["launching"](object)
    assert os.environ["PD_LAUNCH_TOKEN"] != "t-1" and launch.minted_by() == os.getpid()


def test_a_token_that_was_set_by_hand_stays_whatever_is_started(plugin):
    for _ in range(3):
        plugin.handlers()["launching"](object)
    assert os.environ["PD_LAUNCH_TOKEN"] == "t-1"
