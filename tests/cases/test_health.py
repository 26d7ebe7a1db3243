"""Public reports: who is called dead, who is not, and who takes the place of whom."""

import sys
import threading
from pathlib import Path

import pytest

from tests.cases.ranks import Ranks, complete, eventually, fleet, here
from tests.doubles.engine import Engine
from tests.support.ports import free_port
from tests.support.processes import Child, clean_env
from tests.wire.client import Client
from tests.wire.conftest import Server
from tests.wire.operators import rows


def register(client: Client, ports: list[int]) -> None:
    """One rank a port, as TP ranks of one instance."""
    for tp, port in enumerate(ports):
        assert client.put(**here(attn_tp_size=len(ports), attn_tp_rank=tp, rank_port=port)).status == 200


def pair(client: Client) -> tuple[int, int] | None:
    """The ports of both ranks at one moment: rank 0 is asked twice, and was the same before and after."""
    answers = [client.slot(tp=tp) for tp in (0, 1, 0)]
    if any(answer.status != 200 for answer in answers):
        return None
    first, second, again = (answer.json()["rank_port"] for answer in answers)
    return (first, second) if first == again else None


def test_HLT_01_a_restart_on_new_ports_is_answered_from_one_launch_only_first_the_old_then_the_new(watch, ranks: Ranks):
    one: Server = watch()
    client, asking = one.kv(), one.kv(keep=True)
    old, new = ([ranks.open(), ranks.open()] for _ in range(2))
    register(client, old)
    complete(client)
    seen: list[tuple[int, int] | None] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            seen.append(pair(asking))

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        eventually(lambda: tuple(old) in seen)
        ranks.die(*old)
        # The first new rank is here while the second is not.
        assert client.put(**here(attn_tp_size=2, attn_tp_rank=0, rank_port=new[0])).status == 200
        eventually(lambda: client.topology().status == 503)
        register(client, new)
        eventually(lambda: tuple(new) in seen[-1:])
    finally:
        done.set()
        asker.join(60)
    answered = [ports for ports in seen if ports is not None]
    assert set(answered) == {tuple(old), tuple(new)}
    assert tuple(old) not in answered[answered.index(tuple(new)) :], "what is gone does not come back"
    assert len(rows(one.backend, "SELECT 1 FROM controlplane_launch")) == 2


def test_HLT_04_a_dead_prefill_is_said_of_nobody_but_itself(watch, ranks: Ranks):
    one: Server = watch()
    with Engine("decode") as decode:
        one.operator.add("a")
        one.operator.add("b")
        one.operator.add("d", role="decode", engine_url=decode.url)
        a, b = one.kv("a"), one.kv("b")
        ports = {name: [ranks.open(), ranks.open()] for name in "ab"}
        register(a, ports["a"])
        register(b, ports["b"])
        complete(a)
        complete(b)
        for room in range(20):
            assert a.bind(room, 0).status == 200
        (head,) = rows(one.backend, "SELECT max(revision) FROM controlplane_event")
        before = fleet(one.backend, "d")
        ranks.die(*ports["a"])

        def told() -> bool:
            assert (b.health(), b.topology().status, pair(b)) == (200, 200, tuple(ports["b"]))
            return a.health() == 503 and a.topology().status == 503

        eventually(told)
        assert not told() or {rank["contact"] for rank in fleet(one.backend, "b")["ranks"]} == {"up"}
        changed = rows(one.backend, "SELECT DISTINCT instance FROM controlplane_event WHERE revision > ?", *head)
        assert changed == [("a",)]
        after = fleet(one.backend, "d")
        assert {key: after[key] for key in ("health", "intent")} == {key: before[key] for key in ("health", "intent")}
        (left,) = set(rows(one.backend, "SELECT left_reason FROM controlplane_rank WHERE left_at IS NOT NULL LIMIT 1"))
        assert "refuses connections now" in left[0]
        # A query about its rooms is still answered: whoever waits for one can learn that its prefill is gone.
        assert a.find(7).json() == {"7": 0}


def test_HLT_05_who_is_deleted_goes_without_a_word_and_who_has_his_address_now_is_not_taken_for_him(
    watch, ranks: Ranks
):
    one: Server = watch()
    p1, p2, p3 = (one.kv(name) for name in ("p1", "p2", "p3"))
    ports = {name: ranks.open() for name in ("p1", "p2", "p3")}
    for client, port in zip((p1, p2, p3), ports.values(), strict=True):
        register(client, [port])
        complete(client)
    # Deleted, and nobody says so; its replacement comes up elsewhere.
    replaced = ranks.open()
    ranks.die(ports["p1"])
    register(p1, [replaced])
    eventually(lambda: p1.slot().status == 200 and p1.slot().json()["rank_port"] == replaced)
    # It answers on, but is not one of ours any more.
    one.operator.retire("p2")
    eventually(lambda: p2.topology().status != 200)
    # It is gone, and another program, which answers 200 to everything, gets its address.
    ranks.die(ports["p3"])
    eventually(lambda: p3.health() == 503)
    with Engine(port=ports["p3"]):
        # Sweeps pass; a program that answers is not a rank that registers.
        eventually(lambda: p1.health() == 200)
        for _ in range(40):
            assert (p3.health(), p3.topology().status) != (200, 200)
    assert p1.slot().json()["rank_port"] == replaced
    standing = "SELECT i.name, r.port FROM controlplane_rank r JOIN controlplane_instance i ON r.instance_id = i.id"
    standing += " WHERE r.left_at IS NULL AND i.intent != 'retired'"
    assert rows(one.backend, standing) == [("p1", replaced)]


@pytest.fixture
def long_prompt(tmp_path: Path):
    """`long_prompt()` -> a rank in a process of its own, and its port: it can be frozen, as one that only computes is."""
    started: list[Child] = []

    def start() -> tuple[Child, int]:
        port = free_port()
        code = (
            f"import zmq; s = zmq.Context().socket(zmq.PULL); s.bind('tcp://127.0.0.1:{port}'); print('up'); s.recv()"
        )
        child = Child([sys.executable, "-c", code], env=clean_env(), log=tmp_path / f"rank-{port}.log")
        started.append(child)
        child.wait_for_line("^up$", timeout=60)
        return child, port

    yield start
    for child in started:
        child.kill9()


def test_HLT_08_busy_is_shown_and_costs_nothing_dead_is_dead(watch, long_prompt):
    one: Server = watch(PDCP_PROBE_TIMEOUT_SECONDS=0.5)
    busy, dead = one.kv("busy"), one.kv("dead")
    (working, working_port), (dying, dying_port) = long_prompt(), long_prompt()
    register(busy, [working_port])
    register(dead, [dying_port])
    for client in (busy, dead):
        complete(client)
        assert client.bind(5, 0).status == 200
    working.freeze()
    dying.kill9()
    # The kernel takes connections for it; it says nothing itself. That is what is shown, and nothing else changes.
    eventually(lambda: [r["contact"] for r in fleet(one.backend, "busy")["ranks"]] == ["silent"], within=30)
    eventually(lambda: dead.health() == 503)
    for _ in range(20):
        assert (busy.health(), busy.topology().status, busy.slot().json()["rank_port"]) == (200, 200, working_port)
        assert busy.find(5).json() == {"5": 0}
    assert dead.topology().status == 503
    working.thaw()
    eventually(lambda: [r["contact"] for r in fleet(one.backend, "busy")["ranks"]] == ["up"], within=30)
    assert [launch for (launch,) in rows(one.backend, "SELECT number FROM controlplane_launch")] == [1, 1]
