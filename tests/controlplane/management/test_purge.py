"""An operator tidies up beside a real bootstrap process: what is stale, a purge by it, and what the wire says then."""

import httpx

from controlplane.databases import FACTS
from controlplane.models import Event
from tests.cases.ranks import eventually
from tests.support.processes import Bootstrap


def test_what_is_stale_is_listed_rehearsed_and_purged_while_the_wire_goes_on(operator, simulate, bootstrap: Bootstrap):
    ranks = simulate(operator.env, "--tp", "2", "--instance", "old")
    simulate(operator.env, "--tp", "2", "--instance", "new")
    operator.until("fleet", "old", holds=lambda f: all(r["contact"] == "up" for r in f["instance"]["ranks"]))
    assert operator.run("retire", "old", "--reason", "rack returned").returncode == 0

    code, plan = operator.json("purge", "old", "--dry-run")
    assert code == 0 and any("2 answered when last asked" in said for said in plan["instances"][0]["would"])
    refused = operator.run("purge", "old", "--yes")
    assert refused.returncode == 1
    assert "Refused: 2 ranks of old still answer: stop the engine first, or override" in refused.stdout

    ranks.kill9()
    listed = operator.run("purge")
    assert "old" in listed.stdout and "retired by" in listed.stdout and "new" not in listed.stdout
    assert operator.run("purge", "old").returncode == 2, "nobody can be asked without a terminal"

    with httpx.Client(base_url=bootstrap.kv_url, timeout=30) as client:
        query = "prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
        assert "is retired" in client.get(f"/i/old/route?{query}").text
        code, done = operator.json("purge", "old", "--reason", "rack returned", "--actor", "anna")
        assert code == 0, done
        assert done["instances"][0]["granted"] and "old was purged" in done["instances"][0]["answer"]
        gone = operator.until("fleet", holds=lambda f: [i["name"] for i in f["instances"]] == ["new"])
        assert gone
        # The process reads of its own deed like everybody else, within moments.
        eventually(lambda: "no instance is named old" in client.get(f"/i/old/route?{query}").text)
        # The name is free: whoever registers under it is somebody new. And nobody else noticed.
        simulate(operator.env, "--tp", "2", "--instance", "old")
        again = operator.until("fleet", "old", holds=lambda f: f["instance"]["serving"])["instance"]
        assert (again["launch"]["number"], again["version"]) == (1, 1)
        assert client.get(f"/i/new/route?{query}").status_code == 200

    code, events = operator.json("events", "--kind", "instance.purged")
    assert code == 0 and (events[0]["actor"], events[0]["reason"]) == ("anna", "rack returned")
    assert operator.run("purge", "ghost", "--yes").returncode == 1


def test_events_that_are_gone_are_not_passed_over_in_silence(alone):
    for number in range(6):
        assert alone.run("instances", "add", f"a{number}").returncode == 0
    Event.objects.using(FACTS).filter(revision__lt=4).delete()
    for options in (["--after", "1"], ["--after", "2", "--follow"]):
        gone = alone.run("events", *options)
        assert gone.returncode == 1 and "the ledger is kept from revision 4 on" in gone.stderr, gone
    code, events = alone.json("events", "--after", "3")
    assert code == 0 and [event["revision"] for event in events] == [4, 5, 6]
    assert alone.json("events", "--after", "6") == (1, [])


def test_launches_go_out_of_the_archive(alone):
    assert alone.run("purge", "--launches").returncode == 1
    code, gone = alone.json("purge", "--launches", "--older-than", "30d")
    assert (code, gone["count"]) == (1, 0)
    assert alone.run("purge", "--launches", "--older-than", "soon").returncode == 2
    assert alone.run("purge", "x", "--launches").returncode == 2
    assert alone.run("purge", "x", "--wait", "-1").returncode == 2
    assert "No instance is stale." in alone.run("purge").stdout
