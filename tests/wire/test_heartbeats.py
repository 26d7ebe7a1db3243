"""What a worker of ours is told with the answer to its heartbeat, also by a process that took over since."""

import contextlib
import json
import sqlite3
import time
from typing import Any

from tests.support.processes import manage
from tests.wire.conftest import Server

PATIENCE_SECONDS = 30.0
HERE, AFAR = [0, 0, 0, 0], [1, 0, 0, 0]


def beat(server: Server, instance: str, *slots: list[int]) -> list[dict[str, Any]]:
    said = knock(server, instance, *slots)
    assert said is not None
    return said


def knock(server: Server, instance: str, *slots: list[int], lease: float = 60) -> list[dict[str, Any]] | None:
    """What it is told; None when it is turned away."""
    body = {"worker": f"{instance}-worker", "slots": slots, "lease_seconds": lease}
    answer = server.kv(instance)("POST", "/pd/v1/heartbeats", js=body)
    return answer.json()["directives"] if answer.status == 200 else None


def told(server: Server, instance: str, *slots: list[int], wanted: list[dict[str, Any]]) -> None:
    """The directives become `wanted`: the process hears of an operator's change a moment later."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (said := beat(server, instance, *slots)) != wanted:
        assert time.monotonic() < end, said
        time.sleep(0.05)


def register(server: Server, instance: str, groups: int = 1) -> None:
    for dp in range(groups):
        answer = server.kv(instance).put(attn_dp_size=groups, attn_dp_rank=dp, rank_port=41000 + dp)
        assert answer.status == 200, answer


def command(server: Server, *words: str) -> None:
    done = manage(*words, env=server.backend.env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_worker_whose_slot_is_not_registered_is_told_to_register(server: Server, tenant: str):
    register(server, tenant, groups=2)
    assert beat(server, tenant, HERE) == []
    assert beat(server, tenant, HERE, [0, 0, 3, 0]) == [{"do": "register", "slots": [[0, 0, 3, 0]]}]


def test_workers_of_a_draining_instance_or_dp_group_are_told_and_others_are_not(serve):
    server = serve("whole", "part", PDCP_PROBE_NETWORKS="none")
    register(server, "whole")
    register(server, "part", groups=2)
    command(server, "drain", "whole", "--reason", "because a test asks")
    command(server, "drain", "part", "--dp", "1", "--reason", "because a test asks")
    told(server, "whole", HERE, wanted=[{"do": "drain"}])
    told(server, "part", AFAR, wanted=[{"do": "drain"}])
    assert beat(server, "part", HERE) == []
    server.process.kill9()
    server.process.start()
    assert beat(server, "part", AFAR) == beat(server, "whole", HERE) == [{"do": "drain"}]
    assert beat(server, "part", HERE) == []
    command(server, "uncordon", "part", "--dp", "1", "--reason", "because a test asks")
    told(server, "part", AFAR, wanted=[])


def test_what_was_retired_while_a_dp_group_of_it_drained_does_not_drain_when_it_is_added_again(serve):
    server = serve("part", PDCP_PROBE_NETWORKS="none")
    register(server, "part", groups=2)
    command(server, "drain", "part", "--dp", "1", "--reason", "because a test asks")
    told(server, "part", AFAR, wanted=[{"do": "drain"}])
    command(server, "retire", "part", "--reason", "because a test asks")
    command(server, "instances", "add", "part", "--reason", "because a test asks")
    end = time.monotonic() + PATIENCE_SECONDS
    # It is 404 until the process has heard that it was added again.
    while (said := knock(server, "part", AFAR)) is None or {"do": "drain"} in said:
        assert time.monotonic() < end, said
        time.sleep(0.05)


def test_who_was_told_to_register_again_is_told_so_by_the_process_that_took_over(serve):
    server = serve("a", PDCP_PROBE_NETWORKS="none")
    register(server, "a")
    assert beat(server, "a", HERE) == []
    command(server, "reregister", "a", "--reason", "because a test asks")
    server.process.kill9()
    server.process.start()
    again = [{"do": "register", "slots": [HERE]}]
    assert beat(server, "a", HERE) == again
    register(server, "a")
    assert beat(server, "a", HERE) == []


def test_an_instance_that_is_all_there_and_has_no_worker_of_ours_says_so(serve):
    server = serve("a", PDCP_PROBE_NETWORKS="none")
    register(server, "a")
    done = manage("reregister", "a", "--reason", "because a test asks", env=server.backend.env)
    assert done.returncode == 1
    assert "registered already" in done.stdout


def stored(server: Server) -> list[tuple[str, str]]:
    """What the ledger was told of workers: the kind, and of whom."""
    with contextlib.closing(sqlite3.connect(server.backend.data_dir / "controlplane.sqlite3", timeout=30)) as base:
        found = base.execute("SELECT kind, data FROM controlplane_event WHERE kind LIKE 'worker.%' ORDER BY revision")
        return [(kind, json.loads(data)["worker"]) for kind, data in found]


def until_stored(server: Server, *wanted: tuple[str, str]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while (said := stored(server)) != list(wanted):
        assert time.monotonic() < end, said
        time.sleep(0.05)


def test_a_worker_that_falls_silent_is_late_once_keeps_its_ranks_and_is_back_with_its_next_heartbeat(serve):
    server = serve("a", PDCP_PROBE_NETWORKS="none")
    register(server, "a")
    late, back = ("worker.late", "a-worker"), ("worker.back", "a-worker")
    knock(server, "a", HERE, lease=1)
    until_stored(server, late)
    # A restart of ours tells nobody of it again, and knows what is late.
    server.process.kill9()
    server.process.start()
    assert server.kv("a").slot().status == 200 and server.kv("a").health() == 200
    assert stored(server) == [late]
    knock(server, "a", HERE, lease=1)
    until_stored(server, late, back, late)
