"""What the plugin decides without SGLang: its settings, the token of a launch, what a row is, what a room shows."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.domain.claims import RUNGS
from tests.support.processes import ROOT, clean_env
from tests.workers.sglang_plugin.rows import ROW, Manager
from workers.sdk import BadRank
from workers.sglang_plugin import launch
from workers.sglang_plugin.rooms import OpenRooms, Rooms
from workers.sglang_plugin.rows import is_first, own_name, read_rank, size_of
from workers.sglang_plugin.settings import BadSettings, Mode, read

AT = {"PD_CONTROL_PLANE": "cp.rack:8998"}


@pytest.mark.parametrize("name", ["settings", "launch", "rows", "rooms", "hooks", "background", "weights", "plugin"])
def test_examples_in_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(f"workers.sglang_plugin.{name}")).failed == 0


def test_sglang_finds_it_where_the_base_package_is_installed():
    (found,) = importlib.metadata.entry_points(group="sglang.srt.plugins", name="pd_control_plane")
    assert found.value == "workers.sglang_plugin:register", "install again: pip install --no-deps -e ."


@pytest.mark.parametrize("path", sorted((ROOT / "workers" / "sglang_plugin").glob("*.py")), ids=lambda path: path.stem)
def test_a_gpu_host_without_anything_else_can_load_it(path):
    """SGLang itself is imported inside functions alone, when it has called us."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
        for name in names:
            ours = name.startswith(("controlplane.domain", "controlplane.protocol", "workers.sdk"))
            assert ours or name.split(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_without_its_address_it_imports_nothing_and_leaves_the_environment_alone():
    code = (
        "import os, sys\nbefore = dict(os.environ)\nfrom workers.sglang_plugin import register\nregister()\n"
        "print(dict(os.environ) == before, [m for m in sys.modules if m.startswith(('workers.s', 'torch', 'sglang'))])"
    )
    env = clean_env(PD_CONTROL_PLANE=" ")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "True ['workers.sglang_plugin']", done.stderr


def test_settings_that_make_no_sense_are_a_sentence_in_the_log_and_nothing_else():
    code = "from workers.sglang_plugin import register; import logging; logging.basicConfig(); register()"
    for knobs, said in (
        ({"PD_CONTROL_PLANE": "cp:99999"}, "PD_CONTROL_PLANE"),
        ({**AT, "PD_MODE": "both"}, "PD_MODE is report or authority, not 'both'"),
    ):
        env = clean_env(**knobs)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0 and said in done.stderr and "does nothing" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"PD_CONTROL_PLANE": "cp:0"}, "PD_CONTROL_PLANE"),
        ({**AT, "PD_API": "ftp://cp"}, "PD_API"),
        ({**AT, "PD_INSTANCE": "no spaces"}, "PD_INSTANCE"),
        ({**AT, "PD_MODE": "instead"}, "PD_MODE"),
        ({**AT, "PD_LEASE_SECONDS": "0"}, "PD_LEASE_SECONDS must be a number from 1 to 600"),
        ({**AT, "PD_EVIDENCE_SHARE": "half"}, "PD_EVIDENCE_SHARE must be a number from 0 to 1"),
        ({**AT, "PD_TOKEN_FILE": "/nowhere/token"}, "PD_TOKEN_FILE cannot be read"),
        ({**AT, "PD_LAUNCH_TOKEN": "é" * 3}, "PD_LAUNCH_TOKEN must be at most 128 printable ASCII characters"),
    ],
)
def test_each_wrong_setting_is_named(given, said):
    with pytest.raises(BadSettings, match=said):
        read(given)


def test_settings_as_they_are_meant(tmp_path):
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    given = {
        **AT,
        "PD_ENGINE_INFO": "cp.rack:6790",
        "PD_API": "http://cp.rack:8000",
        "PD_INSTANCE": "prefill-a",
        "PD_MODE": " Authority ",
        "PD_TOKEN_FILE": str(secret),
        "PD_EVIDENCE_SHARE": "0.25",
        "PD_LEASE_SECONDS": "",
    }
    settings = read(given)
    plane = settings.plane
    assert (str(plane.kv), str(plane.engine), str(plane.api)) == ("cp.rack:8998", "cp.rack:6790", "cp.rack:8000")
    assert (plane.headers()["x-pd-token"], settings.instance) == ("s3cret", "prefill-a")
    assert settings.mode is Mode.AUTHORITY
    assert (settings.share, settings.lease_seconds) == (0.25, 15.0)
    assert read(AT).mode is Mode.REPORT and read(AT).instance is None


def test_one_token_for_a_launch_and_none_where_it_could_not_be_agreed():
    env: dict[str, str] = {}
    assert launch.prepare(env) and not launch.prepare(dict(env)), "children inherit it"
    minted = env["PD_LAUNCH_TOKEN"]
    assert launch.minted_by(env) == os.getpid()
    child = {**env, launch.MINTED: f"{minted}/1"}
    assert launch.token_for(nodes=1, ranks=8, env=child) == minted
    assert launch.token_for(nodes=2, ranks=8, env=child) == "", "another node minted another one"
    assert launch.token_for(nodes=1, ranks=8, env=env) == "", "this rank minted it itself: the others did too"
    assert launch.token_for(nodes=1, ranks=1, env=env) == minted
    given = {"PD_LAUNCH_TOKEN": "t-1"}
    assert not launch.prepare(given) and launch.token_for(nodes=4, ranks=32, env=given) == "t-1"
    # The second engine of one process; a token that was set by hand is the owner's affair.
    launch.renew(env)
    assert env["PD_LAUNCH_TOKEN"] != minted and launch.minted_by(env) == os.getpid()
    launch.renew(child)
    assert child["PD_LAUNCH_TOKEN"] != minted and launch.minted_by(child) == os.getpid(), (
        "an engine that an engine starts"
    )
    launch.renew(given)
    assert given["PD_LAUNCH_TOKEN"] == "t-1"


def test_a_row_is_what_sglang_sends():
    rank = read_rank({**ROW, "attn_tp_size": 2, "attn_tp_rank": 1, "prefill_http_port": "30000", "of_tomorrow": 1})
    assert (rank.rank_ip, rank.slot.tp, rank.prefill_http_port, size_of(rank)) == ("127.0.0.1", 1, 30000, 2)
    assert not is_first(rank) and is_first(read_rank(ROW))
    assert own_name(rank.prefill_http_port, "gpu-7") == "gpu-7-30000"
    for wrong in ({"rank_port": "x"}, {"rank_port": 0}, {"page_size": None}):
        with pytest.raises(BadRank):
            read_rank({**ROW, **wrong})


class Notes(list[tuple[Any, ...]]):
    def __call__(self, room: int, instance: str, rung: str, result: str, *, detail: str = "") -> None:
        self.append((room, instance, rung, result, detail))


@pytest.fixture
def notes() -> Notes:
    return Notes()


def rooms(notes: Notes, share: float = 1.0) -> Rooms:
    return Rooms(notes, lambda: "p", share=share)


def test_a_prefill_tells_that_it_has_the_room_and_that_the_decode_asked(notes):
    told, manager = rooms(notes), Manager(attn_dp_rank=3, request_status={7: 1})
    sender = SimpleNamespace(kv_mgr=manager, bootstrap_room=7, aux_index=None)
    told.opened(None, sender, manager, "h:1", 7)
    told.bootstrapped(None, sender, 4)
    assert [note[2:4] for note in notes] == [("registered", "passed")], "nobody has asked yet"
    manager.request_status[7] = 2
    told.bootstrapped(None, sender, 4)
    assert notes == [(7, "p", "registered", "passed", "dp3"), (7, "p", "connected", "passed", "the decode has asked")]


def test_of_what_went_well_one_rank_tells_and_of_a_failure_the_one_that_knows(notes):
    told = rooms(notes)
    second = Manager(attn_tp_rank=1, request_status={7: 2})
    sender = SimpleNamespace(kv_mgr=second, bootstrap_room=7, aux_index=3)
    told.opened(None, sender)
    told.bootstrapped(None, sender)
    told.sender_failed(sender)
    assert notes == [], "it does not know why: another rank does"
    second.failure_records[7] = "session\n10.0.0.2:1 is dead"
    told.sender_failed(sender)
    sender.aux_index = None
    told.sender_failed(sender)
    assert notes == [
        (7, "p", "verified", "failed", "session 10.0.0.2:1 is dead"),
        (7, "p", "connected", "failed", "session 10.0.0.2:1 is dead"),
    ]


def test_a_decode_names_the_prefill_by_a_rank_that_it_was_given(notes):
    told, manager = rooms(notes), Manager()
    receiver = SimpleNamespace(
        kv_mgr=manager, bootstrap_room=8, bootstrap_addr="10.0.0.9:8998", conclude_state=None, prefill_dp_rank=1
    )
    receiver.bootstrap_infos = [{"rank_ip": "fd00::1", "rank_port": 4001}]
    told.resolved(None, receiver)
    req = SimpleNamespace(finished_reason=None)
    told.committed(lambda queue, request: "committed", None, SimpleNamespace(kv_receiver=receiver, req=req))
    assert [note[1] for note in notes] == ["[fd00::1]:4001"] * 4
    assert [note[2] for note in notes] == list(RUNGS[1:])
    # Later it cannot be resolved: the last rank of that address says whose it is.
    del notes[:]
    manager.failure_records[9] = "Could not fetch bootstrap info"
    gone = SimpleNamespace(
        kv_mgr=manager, bootstrap_room=9, bootstrap_addr="10.0.0.9:8998", conclude_state=0, bootstrap_infos=None
    )
    told.resolved(None, gone)
    told.receiver_failed(gone)
    assert notes == [(9, "[fd00::1]:4001", "resolved", "failed", "Could not fetch bootstrap info")], "once"


def test_another_rooms_metadata_is_a_failure_and_never_consumed(notes):
    told, manager = rooms(notes), Manager()
    receiver = SimpleNamespace(kv_mgr=manager, bootstrap_room=8, bootstrap_addr="prefill-a:x@h:1", conclude_state=None)
    told.resolved(None, receiver)
    reason = SimpleNamespace(message="Metadata corruption detected - bootstrap_room mismatch")
    request = SimpleNamespace(kv_receiver=receiver, req=SimpleNamespace(finished_reason=reason))
    told.committed(lambda *_: None, None, request)
    assert [(note[1], note[2], note[3]) for note in notes] == [
        ("prefill-a", "resolved", "passed"),
        ("prefill-a", "verified", "wrong_room"),
    ]


def test_words_that_a_batch_would_be_refused_for_are_not_sent(notes):
    told, manager = rooms(notes), Manager(request_status={-1: 1, 2**63: 1, 5: 0})
    for room in (-1, 2**63, None):
        told.opened(None, SimpleNamespace(kv_mgr=manager, bootstrap_room=room))
    manager.failure_records[5] = "\x00 " + "long " * 100
    told.opened(None, SimpleNamespace(kv_mgr=manager, bootstrap_room=5))
    ((_, _, rung, result, detail),) = notes
    assert (rung, result) == ("registered", "failed") and len(detail) == 200 and "\x00" not in detail


def test_a_share_of_the_rooms_is_told_of_and_every_failure(notes):
    told, manager = rooms(notes, share=0.25), Manager(request_status=dict.fromkeys(range(1000), 1))
    for room in range(1000):
        told.opened(None, SimpleNamespace(kv_mgr=manager, bootstrap_room=room))
    assert 200 < len(notes) < 300
    del notes[:]
    manager.request_status, manager.failure_records = dict.fromkeys(range(50), 0), dict.fromkeys(range(50), "no memory")
    for room in range(50):
        told.opened(None, SimpleNamespace(kv_mgr=manager, bootstrap_room=room))
    assert len(notes) == 50


def test_open_rooms_are_what_the_managers_hold():
    count, pipeline = OpenRooms(), SimpleNamespace(_local_map={1: 1, 2: 4})
    first, second = Manager(request_status={1: 1}), Manager(attn_dp_rank=1, request_status=pipeline)
    assert count.add(first) and not count.add(second)
    assert count() == {0: 1, 1: 2}
    first.request_status.clear()
    assert count() == {0: 0, 1: 2}, "a zero is said: it lets a drain end"
    count.remove(second)
    assert count() == {0: 0}
