"""Cordon, drain, uncordon, retire, evict and reregister at the shell: text, JSON, exit codes, and watching a drain end."""

import json
import sys
import threading
import time

import pytest
from django.db import connections

from controlplane.access import attempts
from controlplane.commands import drains, instances
from controlplane.domain.topology import Topology
from controlplane.management.operating import os_user
from tests.controlplane.commands.draining import WHO, acknowledge, join, the_drain
from tests.controlplane.queries.world import World
from tests.doubles.engine import Engine
from tests.support.processes import Child, manage


@pytest.fixture
def world(on_backend):
    made = World("prefill-a")
    made.launch(Topology(2, 1, 1, 1), first_port=4000)
    return made


@pytest.fixture
def engine():
    with Engine(dp=2) as running:
        yield running


def test_an_afternoon_with_one_instance(alone, world):
    run = alone.run
    done = run("cordon", "prefill-a", "--reason", "new driver", "--actor", "anna")
    assert (done.returncode, done.stdout) == (
        0,
        "prefill-a is cordoned: the gateways and routers known here send nothing new to it.\n",
    )
    assert run("cordon", "prefill-a", "--dp", "1").stdout.startswith("dp1 of prefill-a is cordoned")
    stale = run("uncordon", "prefill-a", "--if-version", "2", "--actor", "ben")
    assert stale.returncode == 1
    assert "(version 2 → 3): intent of dp1 enabled → cordoned; nothing was done" in stale.stderr
    code, document = alone.json("uncordon", "prefill-a", "--if-version", "3")
    assert (code, document["intent"], document["version"], document["dp"]) == (0, "enabled", 4, None)
    assert document["sentence"] == "prefill-a is enabled again; dp1 stays cordoned"
    assert run("drain", "prefill-a", "--dp", "7").stderr == (
        "error: dp7 does not exist in prefill-a: it has 2 DP groups\n"
    )
    assert run("drain", "prefill-a", "--dp", "-1").returncode == 2
    assert run("drain", "ghost").returncode == 1
    assert run("drain", "prefill-a", "--deadline", "soon").returncode == 2
    began = run("drain", "prefill-a", "--deadline", "5m")
    assert (began.returncode, began.stdout) == (0, "prefill-a is draining.\n")
    assert "anna: new driver" not in run("fleet", "prefill-a").stdout
    forgotten = run("drain", "prefill-a", "--to", "cordoned")
    assert (forgotten.returncode, "give both" in forgotten.stderr) == (2, True), "no drain was asked for"
    cancelled = run("drain", "prefill-a", "--cancel", "--to", "cordoned")
    assert cancelled.stdout.startswith("the drain of prefill-a was cancelled: it is cordoned")
    run("drain", "prefill-a")
    code, document = alone.json("drain", "prefill-a", "--force", "--reason", "it burns")
    assert code == 0 and document["drain"] == the_drain().id
    retired = run("retire", "prefill-a")
    assert retired.stdout.startswith("prefill-a is retired: whoever asks for it is told 404")
    told = run("events", "--instance", "prefill-a", "--kind", "drain").stdout
    assert "was ended by force: it is not drained" in told and "drain.ended" not in told
    kinds = [event["kind"] for event in alone.json("events", "--limit", "100")[1]]
    assert kinds.count("drain.started") == 2 and kinds.count("drain.ended") == 2
    # The audit has all of it, what was refused too: who said so, and who sat at which host.
    audit = attempts.listing()
    said = [(row.action, row.target, row.allowed) for row in audit]
    assert said[0] == ("retire", "prefill-a", True) and said[1] == ("force-drain", "prefill-a", True)
    assert ("cordon", "prefill-a dp1", True) in said and ("drain", "prefill-a dp7", False) in said
    first = audit[-1]
    assert (first.actor, first.via, first.reason, first.outcome) == ("anna", "cli", "new driver", done.stdout[:-2])
    assert first.source.partition("@")[0] == os_user() and {row.source for row in audit} == {first.source}


def test_a_dry_run_shows_the_plan_and_changes_nothing(alone, world, engine):
    World("prefill-b").launch(Topology(1, 1, 1, 1), first_port=5000)
    instances.add("decode-a", role="decode", **WHO)
    code, plan = alone.json("drain", "prefill-a", "--dry-run", "--min-ready", "1")
    assert (code, plan["refused"]) == (0, None)
    assert plan["instances"] == {"now": 2, "after": 1} and plan["pairs"] == {"now": 2, "after": 1}
    assert (plan["can_stop_admission"], plan["selectors"], plan["witnesses"]) == (False, [], [])
    told = alone.run("drain", "prefill-a", "--dry-run", "--min-ready", "2")
    assert told.returncode == 1
    assert told.stdout.splitlines() == [
        "If prefill-a were drained:",
        "  It would be refused: 1 routable prefill instances would remain, and 2 are wanted.",
        "  Of 2 routable prefill instances with 3 DP groups, 1 with 1 DP group remain; pairs of prefill and decode: 2 → 1.",
        "  Admission cannot be stopped from here: no gateway or router that chooses workers is known.",
        "  Nobody is known who can tell that nothing is left, unless its workers report: give the URL of its engine.",
    ]
    join()
    instances.edit("prefill-a", engine_url=engine.url, **WHO)
    code, plan = alone.json("drain", "prefill-a", "--dp", "1", "--dry-run")
    assert plan["instances"] == {"now": 2, "after": 2} and plan["groups"] == {"now": 3, "after": 2}
    assert plan["can_stop_admission"] and plan["selectors"] == ["gateway g1"]
    assert plan["witnesses"] == ["the engine's own load"]
    assert alone.json("instances", "list")[1]["instances"][1]["intent"] == "enabled"


def test_a_drain_is_followed_until_it_is_drained(alone, world, engine, on_backend, tmp_path):
    join()
    instances.edit("prefill-a", engine_url=engine.url, **WHO)
    engine.counts[0].running = 1
    argv = [sys.executable, "manage.py", "drain", "prefill-a", "--watch", "--json", "--actor", "anna"]
    watcher = Child(argv, env=on_backend.env, log=tmp_path / "watch.log")
    try:
        watcher.wait_for_line(r'"sentence": "prefill-a is draining"', timeout=60)
        acknowledge()
        keep_looking(lambda: "the engine still has requests on dp0" in the_drain().blockers)
        watcher.wait_for_line(r"the engine still has requests on dp0", timeout=60)
        engine.counts[0].running = 0
        keep_looking(lambda: the_drain().progress == "drained")
        assert watcher.wait(60) == 0
        documents = [json.loads(line) for line in watcher.lines]
        assert documents[-1]["progress"] == "drained" and documents[-1]["safe_to_delete"]
    finally:
        watcher.kill9()
    # Whoever comes later sees it at once, and is told so by the exit code.
    later = alone.run("drain", "prefill-a", "--watch")
    assert later.returncode == 0 and "prefill-a is drained: launch 1 may be deleted" in later.stdout


def test_a_drain_that_ends_otherwise_is_told_by_the_exit_code(alone, world):
    drains.drain("prefill-a", **WHO)
    later = threading.Timer(1.0, give_up)
    later.start()
    done = alone.run("drain", "prefill-a", "--watch")
    later.join()
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("prefill-a is draining already (by anna, waiting)")
    assert "not drained: its drain was ended by force" in done.stdout


def test_a_cordon_is_followed_until_everybody_has_stopped(alone, world):
    nobody = alone.run("cordon", "prefill-a", "--watch")
    assert nobody.returncode == 1 and "cannot stop admission" in nobody.stdout
    join()
    acknowledge()
    done = alone.run("cordon", "prefill-a", "--watch")
    assert done.returncode == 0 and done.stdout.endswith("Everybody has stopped.\n")


def test_evict_and_reregister_are_requests_of_that_name(alone, world):
    for name in ("evict", "reregister"):
        code, document = alone.json(name, "prefill-a", "--wait", "0")
        assert (code, document["kind"], document["answered"]) == (0, name, False)
    waited = alone.run("evict", "prefill-a", "--slot", "dp1", "--wait", "0.2")
    assert waited.returncode == 1 and "was not answered within 0.2 s" in waited.stdout


def test_the_key_of_an_engine_comes_from_a_file_and_is_shown_nowhere(alone, world, tmp_path):
    (tmp_path / "key").write_text("sesame\n")
    done = alone.run(
        "instances",
        "edit",
        "prefill-a",
        "--engine-url",
        "http://127.0.0.1:30000",
        "--engine-key-file",
        str(tmp_path / "key"),
    )
    assert done.returncode == 0, done.stderr
    assert "sesame" not in json.dumps(alone.json("instances", "list")[1])
    assert "sesame" not in alone.run("events", "--limit", "50").stdout
    assert alone.run("instances", "edit", "prefill-a", "--engine-key-file", "/nowhere").returncode == 2
    assert alone.run("instances", "edit", "prefill-a", "--no-engine-key").returncode == 0


def test_two_operators_at_two_shells_one_wins_and_the_other_is_told_what_is_different(world, on_backend):
    found: list = []

    def give(*arguments: str) -> None:
        found.append(manage(*arguments, "--if-version", "1", env=on_backend.env))

    both = [
        threading.Thread(target=give, args=("drain", "prefill-a", "--actor", "anna")),
        threading.Thread(target=give, args=("cordon", "prefill-a", "--actor", "ben")),
    ]
    for each in both:
        each.start()
    for each in both:
        each.join()
    (won,) = [done for done in found if done.returncode == 0]
    (lost,) = [done for done in found if done.returncode == 1]
    winner, intent = ("anna", "draining") if "draining" in won.stdout else ("ben", "cordoned")
    assert f"changed by {winner} meanwhile (version 1 → 2): intent enabled → {intent}; nothing was done" in lost.stderr


def give_up() -> None:
    drains.force("prefill-a", actor="ben")
    connections.close_all()


def keep_looking(holds, within: float = 60) -> None:
    """As the task does, once a second or so."""
    end = time.monotonic() + within
    while not holds():
        drains.check()
        assert time.monotonic() < end
        time.sleep(0.3)
