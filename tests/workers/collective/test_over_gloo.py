"""Real processes agree over gloo: on one host, on two network namespaces, late, and not at all."""

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.machine import slowness
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env

GENEROUS = 90.0
WORLD = 4
LEADER, OTHER = "10.77.1.1", "10.77.1.2"

Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(rank, master, port, how, within=…, inside=…)` -> a rank; it ends with the test."""
    started: list[Child] = []

    def one(
        rank: int, master: str, port: int, how: str, *, within: float = 60, inside: str = "", nic: str = "lo"
    ) -> Child:
        prefix = ["ip", "netns", "exec", inside] if inside else []
        words = [str(rank), str(WORLD), master, str(port), how, str(within)]
        env = clean_env(GLOO_SOCKET_IFNAME=nic, OMP_NUM_THREADS=1, TORCH_CPP_LOG_LEVEL="ERROR")
        started.append(
            Child(
                [*prefix, sys.executable, "-m", "tests.workers.collective.rank", *words],
                env=env,
                log=tmp_path / f"rank-{rank}.log",
            )
        )
        return started[-1]

    yield one
    for child in started:
        child.kill9()


def said(child: Child, *, within: float = GENEROUS) -> dict:
    return json.loads(child.wait_for_line(r'^(\{"rank".*)$', timeout=within)[1])


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a cable between them."""
    if os.geteuid() != 0 or subprocess.run(["ip", "netns", "list"], capture_output=True).returncode != 0:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("two hosts need root, and `ip netns` (Debian: iproute2)")
    tag = uuid.uuid4().hex[:6]
    names, ends = (f"pd-a-{tag}", f"pd-b-{tag}"), (f"va{tag}", f"vb{tag}")

    def ip(*words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"

    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(names, ends, (LEADER, OTHER), strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "link", "set", end, "name", "eth0")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        # The cable goes with either of its ends.
        for name in made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.timeout(240)
def test_four_processes_on_two_hosts_register_at_the_leader_s_port(start: Start):
    with two_hosts() as (leader, other):
        port = free_port()
        ranks = [start(n, LEADER, port, "fixed", inside=leader if n < 2 else other, nic="eth0") for n in range(WORLD)]
        told = [said(rank) for rank in ranks]
        for rank in ranks:
            rank.wait(60)
    assert [one["own"] for one in told] == [9000, 9001, 9002, 9003], "each reserved a port of its own"
    assert {(one["port"], one["token"]) for one in told} == {(9000, "token-of-0")}
    log = "".join(rank.log() for rank in ranks)
    assert "Traceback" not in log


def test_a_node_that_comes_before_the_group_is_initialised_is_told_what_is_missing(start: Start):
    told = said(start(2, "127.0.0.1", free_port(), "alone"))
    assert told["kind"] == "NotInitialised"
    assert "init_process_group" in told["why"] and "2 nodes" in told["why"]


@pytest.mark.timeout(240)
def test_a_leader_that_says_nothing_is_given_up_in_time_and_one_that_dies_too(start: Start):
    port = free_port()
    ranks = [start(n, "127.0.0.1", port, "sleepy", within=2 if n == 1 else 60) for n in range(WORLD)]
    assert said(ranks[0])["sleeps"]
    late = said(ranks[1])
    assert late["kind"] == "NobodyTold" and "within 2 s" in late["why"]
    assert late["took"] / slowness() < 10
    ranks[0].kill9()
    for rank in ranks[2:]:
        lost = said(rank)
        assert lost["kind"] == "NobodyTold", lost
