"""`manage.py explain`: the verdict, its reasons, the story; for one, for a DP group, for the fleet; once and again."""

import sys
import time

from controlplane.commands import drains, gateways, instances, intent
from controlplane.domain.topology import Topology
from controlplane.models import RoomBinding, RoomReport
from tests.controlplane.queries.world import World
from tests.support.processes import Child


def serving(name: str = "prefill-a") -> World:
    world = World(name)
    world.launch(Topology(2, 1, 2, 1), first_port=4000)
    return world


def test_a_routable_instance_has_a_reason_for_each_fact_and_its_story(alone):
    serving()
    done = alone.run("explain", "prefill-a")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "prefill-a is routable."
    assert [line.split()[:2] for line in lines[2:7]] == [
        ["FACT", "SAYS"],
        ["registration", "yes"],
        ["health", "yes"],
        ["intent", "yes"],
        ["breaker", "yes"],
    ]
    assert lines[8].startswith("prefill-a is serving: launch 1, 4 ranks")


def test_the_questions_come_last_with_their_conclusion_and_the_next_step(alone):
    world = serving()
    world.refuse(4003)
    lines = alone.run("explain", "prefill-a").stdout.splitlines()
    table = next(place for place, line in enumerate(lines) if line.startswith("QUESTION"))
    assert lines[table + 1].startswith("Is the directory up?")
    assert any(line.startswith("Does its engine answer?") and "not observed" in line for line in lines[table:])
    assert lines[-2].startswith("Did every rank register? No. 3 of 4 ranks are registered; dp1 tp1 at 10.0.0.1:4003 is")
    assert lines[-1].startswith("Next: Look on that host what ended it")
    _, document = alone.json("explain", "prefill-a")
    assert document["conclusion"]["code"] == "dead" and document["answers"][0]["key"] == "directory"
    assert "QUESTION" not in alone.run("explain", "prefill-a", "--dp", "0").stdout


def test_a_room_is_asked_about_in_the_same_way(alone):
    world, now = serving(), time.time()
    RoomBinding.objects.create(instance_id=world.row.pk, room=7, dp=1, expires_ms=int((now + 60) * 1000))
    lines = alone.run("explain", "--room", "7").stdout.splitlines()
    assert lines[0].split() == ["QUESTION", "ANSWER", "SEEN", "WHY"]
    assert lines[1].startswith("Is it clear who holds it?") and "prefill-a dp1 holds it" in lines[1]
    assert lines[-1].startswith("Stops at registered.")
    report = {"room": 7, "instance": "prefill-a", "source": "d/1", "at": now, "received_at": now}
    RoomReport.objects.create(**report, rung="verified", result="other_room", detail="the metadata is of room 8")
    done = alone.run("explain", "--room", "7")
    assert done.returncode == 1 and done.stdout.splitlines()[-1].startswith("Next: Nothing was consumed.")
    _, document = alone.json("explain", "--room", "7")
    assert document["conclusion"]["kind"] == "failed" and document["room"] == "7"
    assert [a["code"] for a in document["answers"] if a["verdict"] == "no"] == ["other_room"]
    assert alone.run("explain", "--room", "x").stderr.startswith("error: a room is a whole number")


def test_who_is_not_routable_says_why_and_the_exit_code_says_so_too(alone):
    world = serving()
    intent.cordon("prefill-a", actor="anna", reason="disk")
    done = alone.run("explain", "prefill-a")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1,
        "prefill-a is not routable: prefill-a is cordoned by anna: disk.",
    )
    world.refuse(4003)
    code, document = alone.json("explain", "prefill-a")
    assert code == 1
    assert document["because"] == "launch 1 is not complete: 3/4, missing dp1 tp1"
    assert [reason["code"] for reason in document["reasons"] if reason["blocks"]] == [
        "incomplete",
        "lost_rank",
        "cordoned",
    ]
    assert document["explanation"][0].startswith("prefill-a is not serving")
    assert [group["dp"] for group in document["groups"]] == [0, 1]


def test_one_dp_group_is_explained_alone(alone):
    serving()
    intent.cordon("prefill-a", group=1, actor="anna")
    assert alone.run("explain", "prefill-a", "--dp", "0").returncode == 0
    done = alone.run("explain", "prefill-a", "--dp", "1")
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        1,
        "DP group 1 of prefill-a is not routable: DP group 1 of prefill-a is cordoned by anna.",
    )
    missing = alone.run("explain", "prefill-a", "--dp", "9")
    assert (missing.returncode, missing.stderr) == (1, "error: prefill-a has no DP group 9 that is known here\n")


def test_the_fleet_has_a_line_for_each_instance_and_for_groups_that_differ(alone):
    assert alone.run("explain", "--routable").returncode == 1
    serving("a")
    serving("b")
    instances.add("d", role="decode", actor="anna")
    intent.cordon("b", group=1, actor="anna")
    done = alone.run("explain", "--routable")
    assert done.returncode == 0
    lines = [line.split()[:4] for line in done.stdout.splitlines()]
    assert lines[0] == ["NAME", "DP", "ROLE", "ROUTABLE"]
    assert lines[1:] == [
        ["a", "-", "prefill", "yes"],
        ["b", "-", "prefill", "yes"],
        ["0", "yes", "2/2"],
        ["1", "no", "2/2", "DP"],
        ["d", "-", "decode", "yes"],
    ]
    _, document = alone.json("explain", "--routable")
    assert [(row["name"], row["routable"]) for row in document["instances"]] == [("a", True), ("b", True), ("d", True)]


def test_the_json_of_an_instance_has_intents_drains_and_breakers(alone):
    serving()
    intent.cordon("prefill-a", group=0, actor="bob", reason="HBM")
    drains.drain("prefill-a", actor="anna", reason="move")
    gateways.join("g1")
    gateways.report_breakers("g1", [{"instance": "prefill-a", "state": "open", "reason": "failed"}])
    found = alone.json("fleet", "prefill-a")[1]["instance"]
    assert (found["intent"], found["version"], found["engine_url"]) == ("draining", 3, "")
    assert (found["intent_by"]["actor"], found["intent_by"]["reason"]) == ("anna", "move")
    assert [(group["dp"], group["intent"], group["actor"]) for group in found["groups"]] == [(0, "cordoned", "bob")]
    assert [(drain["dp"], drain["progress"], drain["launch"]) for drain in found["drains"]] == [(None, "waiting", 1)]
    assert [(b["gateway"], b["dp"], b["state"]) for b in found["breakers"]] == [("g1", None, "open")]


def test_a_name_or_the_fleet_but_not_both_or_neither(alone):
    for arguments in (("explain",), ("explain", "a", "--routable"), ("explain", "a", "--room", "7")):
        done = alone.run(*arguments)
        assert done.returncode == 2 and "error: name an instance, or say --routable or --room ROOM" in done.stderr
    assert alone.run("explain", "ghost").stderr == "error: no instance is named ghost\n"


def test_watching_prints_anew_what_changes(alone, tmp_path):
    serving()
    argv = [sys.executable, "manage.py", "explain", "prefill-a", "--watch", "--json"]
    child = Child(argv, env=alone.env, log=tmp_path / "watch.log")
    child.wait_for_line('"routable": true', timeout=60)
    intent.cordon("prefill-a", actor="anna", reason="disk")
    child.wait_for_line("prefill-a is cordoned by anna: disk", timeout=60)
    intent.uncordon("prefill-a", actor="anna")
    end = time.monotonic() + 60
    while (tmp_path / "watch.log").read_text().count('"routable"') < 3 and time.monotonic() < end:
        time.sleep(0.1)
    child.kill9()
    assert (tmp_path / "watch.log").read_text().count('"routable": true') >= 2
