"""Whose process is at the other end of a connection, and of which launch: seen in /proc, and never guessed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes import clean_env
from workers.relay import processes
from workers.relay.processes import (
    LaunchIdentity,
    Process,
    find_peer,
    is_alive,
    launch_of,
    listening,
    process_of,
    world,
)


def connected(host: str) -> tuple[socket.socket, socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family)
    server.bind((host, 0))
    server.listen()
    client = socket.create_connection(server.getsockname()[:2])
    return server, client, server.accept()[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_process_at_the_other_end_of_a_connection_is_found(host):
    server, client, accepted = connected(host)
    with closing(server), closing(client), closing(accepted):
        own, peer = accepted.getsockname()[:2], accepted.getpeername()[:2]
        found = find_peer(own, peer)
        assert found == process_of(os.getpid()) and found is not None and is_alive(found) is True
        assert server.getsockname()[1] in listening() and peer[1] not in listening()
        assert find_peer(own, ("10.1.2.3", peer[1])) is None, "of another host nothing is seen"


def test_over_a_socket_of_both_families_too():
    server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    client = socket.create_connection(("127.0.0.1", server.getsockname()[1]))
    accepted, _ = server.accept()
    with closing(server), closing(client), closing(accepted):
        assert find_peer(accepted.getsockname()[:2], accepted.getpeername()[:2]) == process_of(os.getpid())


def test_a_process_that_ended_is_no_more_and_one_of_another_namespace_is_unknown():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    there = process_of(child.pid)
    assert there is not None and is_alive(there)
    child.kill()
    child.communicate()
    assert is_alive(there) is False and process_of(child.pid) is None
    me = process_of(os.getpid())
    assert me is not None and Process.parse(str(me)) == me and Process.parse("nonsense") is None
    boot, _, namespace = world().partition(":")
    assert is_alive(Process(me.pid, me.started + 1, me.world)) is False, "its number is another's now"
    assert is_alive(Process(me.pid, me.started, f"{boot}:1{namespace}")) is None
    assert is_alive(Process(me.pid, me.started, f"another:{namespace}")) is False, "this host was started anew"


def test_the_environment_tells_a_launch_and_a_token_of_its_own_counts_first():
    for more, expected in (
        ({"PD_LAUNCH_TOKEN": "mine", "SGLANG_RUN_ID": "run-1"}, LaunchIdentity("token:mine", "mine")),
        ({"SGLANG_RUN_ID": "run-1"}, LaunchIdentity("run:run-1")),
        ({"PD_LAUNCH_TOKEN": "x" * 129, "SGLANG_RUN_ID": "run-1"}, LaunchIdentity("run:run-1")),
    ):
        env = {**clean_env(PD_LAUNCH_TOKEN=None, SGLANG_RUN_ID=None), **more}
        child = subprocess.Popen(
            [sys.executable, "-c", "input(1)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        # Only then it is surely what it was started as.
        assert child.stdout is not None and child.stdout.read(1) == b"1"
        found = process_of(child.pid)
        assert found is not None and launch_of(found) == expected
        child.kill()
        child.communicate()


@pytest.fixture
def proc(tmp_path) -> Path:
    """An empty /proc in which `add` makes processes."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[7]")
    return tmp_path


def add(proc: Path, pid: int, parent: int, *command: str, name: str = "x") -> None:
    (proc / str(pid)).mkdir()
    fields = ["S", str(parent), *("0" for _ in range(17)), str(pid * 10), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")
    (proc / str(pid) / "cmdline").write_bytes("\0".join(command).encode() + b"\0")


def root(proc: Path, pid: int) -> int:
    process = process_of(pid, proc=proc)
    assert process is not None
    kind, _, rest = launch_of(process, proc=proc).text.partition(":")
    assert kind == "process"
    found = Process.parse(rest)
    assert found is not None
    return found.pid


SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork")


def test_without_it_the_process_that_began_the_launch_tells_it(proc):
    add(proc, 10, 1, "python3", "/usr/bin/supervisord")
    add(proc, 20, 10, "python3", "-m", "sglang.launch_server", "--model", "m")
    add(proc, 30, 20, "sglang::data_parallel_controller", name="a (b) c")
    add(proc, 40, 30, "sglang::scheduler_DP0_TP0")
    add(proc, 41, 30, *SPAWNED)
    add(proc, 21, 10, "python3", "-m", "sglang.launch_server", "--model", "m", "--port", "2")
    add(proc, 42, 21, *SPAWNED)
    assert (root(proc, 40), root(proc, 41), root(proc, 42)) == (20, 20, 21)
    # What was forked, and not started anew, has its parent's words.
    add(proc, 50, 20, "python3", "-m", "sglang.launch_server", "--model", "m")
    assert root(proc, 50) == 20
    # A shell that starts one launch after the other is no part of any.
    add(proc, 60, 1, "bash", "restart.sh")
    add(proc, 61, 60, "python3", "-m", "sglang.launch_server")
    assert root(proc, 61) == 61


def test_what_cannot_be_read_is_unknown(proc):
    assert process_of(5, proc=proc) is None and listening(proc=proc) == frozenset()
    assert find_peer(("127.0.0.1", 1), ("127.0.0.1", 2), proc=proc) is None
    add(proc, 5, 1, "x")
    (proc / "5/stat").write_text("5 (x) Z 1 0")
    assert process_of(5, proc=proc) is None


def test_addresses_are_read_as_the_kernel_writes_them():
    for host in ("127.0.0.1", "::1"):
        server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        with closing(server):
            table = Path("/proc/net/tcp6" if ":" in host else "/proc/net/tcp").read_text().splitlines()[1:]
            ends = [line.split()[1] for line in table if line.split()[3] == "0A"]
            mine = [end for end in ends if processes._port(end) == server.getsockname()[1]]
            assert [str(processes._address(end)) for end in mine] == [host]


def test_those_who_come_together_are_looked_for_together(monkeypatch):
    """Reading all open files of a busy host takes a tenth of a second: 64 ranks at once are not 64 times that."""
    search, looked = processes._Search(), []

    def holders(inodes: Iterable[int], proc: str) -> dict[int, int]:
        looked.append(set(inodes))
        while len(looked) == 1 and len(search._wanted) < 7:
            time.sleep(0.001)
        return {inode: inode + 1000 for inode in inodes if inode != 3}

    monkeypatch.setattr(processes, "_holders", holders)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda inode: search.holder_of(inode, Path("/proc")), range(8)))
    assert found == [None if inode == 3 else inode + 1000 for inode in range(8)]
    assert len(looked) == 2 and not search._found and not search._wanted
