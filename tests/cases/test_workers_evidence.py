"""Public reports, the workers' half: a room's waits are told apart, and its way is told with who saw it."""

import asyncio

import httpx
import pytest

from tests.cases.ranks import eventually
from tests.cases.test_workers_reaching import GENEROUS, rank_on
from tests.controlplane.metrics.scraping import Scrape
from tests.workers.agent.pairs import Leg, Pair, pair, prompts
from tests.workers.sdk.plane import RealPlane, real_plane
from workers.sdk import Client, WorkerError
from workers.sdk.reports import Reports
from workers.sdk.wire import Wire

RUNGS = ("registered", "resolved", "connected", "verified", "consumed")
NORMAL, MEMORY, LATE = range(1, 101), range(1001, 1051), range(2001, 2051)
"""Rooms: a hundred that nothing is wrong with, fifty whose decode waits for memory, fifty whose prefill comes late."""


@pytest.fixture(scope="module")
def plane(sqlite_template, tmp_path_factory):
    with real_plane(sqlite_template, tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest.fixture(scope="module")
def token(plane: RealPlane) -> str:
    return plane.token("fleet", "register", "resolve", "read", "report")


@pytest.fixture(scope="module")
def looks(plane: RealPlane, token: str):
    def look(room: int) -> dict:
        answer = httpx.get(
            f"{plane.web.url}/api/v1/explain/room/{room}", headers={"X-PD-Token": token}, timeout=GENEROUS
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    return look


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def moments(said: dict) -> dict[str, dict]:
    return {one["name"]: one for one in said["timeline"]}


def test_OPS_04_waits_for_memory_and_transfers_are_histograms_of_their_own_and_each_room_has_its_timeline(
    plane, token, looks
):
    with Client(plane.at("default", token), token="launch-1") as client:
        client.register([rank_on(41000)]).wait(within=GENEROUS)
    at, clock = plane.at("default", token), Clock()
    head = {"X-PD-Token": token}
    before = Scrape.of(f"{plane.web.url}/metrics", **head)

    async def tell() -> Reports:
        wire = Wire()
        reports = Reports(wire, at, at.api, source="decode-1/7", clock=clock)
        for room in (*NORMAL, *MEMORY, *LATE):
            reports.note(room, "default", "resolved", took=3.0 if room in LATE else 0.01)
            clock.now += 5.0 if room in MEMORY else 0.02
            reports.note(room, "default", "connected")
            clock.now += 0.2
            reports.note(room, "default", "verified")
            clock.now += 0.004
            reports.note(room, "default", "consumed", detail="8 tokens")
        await reports.flush()
        await wire.aclose()
        return reports

    reports = asyncio.run(tell())
    assert (reports.sent, reports.dropped) == (800, 0)
    said = Scrape.of(f"{plane.web.url}/metrics", **head)

    def within(rung: str, le: str) -> int:
        name = "pdcp_reported_rung_seconds_bucket"
        return int(said.value(name, rung=rung, le=le) - before.value(name, rung=rung, le=le))

    assert (within("resolved", "0.025"), within("resolved", "2.5"), within("resolved", "5.0")) == (150, 150, 200)
    # Fifty waited for memory, and fifty others for their prefill: each group shows in its phase alone.
    assert (within("connected", "0.025"), within("connected", "2.5"), within("connected", "10.0")) == (150, 150, 200)
    assert (within("verified", "0.1"), within("verified", "0.25")) == (0, 200)
    for room, slow, took in ((7, "", 0), (1007, "connected", 5), (2007, "answered", 3)):
        found = moments(looks(room))
        when = {name: one["at"] for name, one in found.items()}
        assert all(found[name]["who"] == "decode-1/7" for name in ("first asked", "answered", "connected", "finished"))
        assert found["registered"]["knowledge"] == "not_observed" and when["registered"] is None
        assert found["created"]["knowledge"] == "inferred" and when["created"] == when["first asked"]
        if slow:
            assert f"{took} s" in found[slow]["sentence"] or f"{took} s" in found["first asked"]["sentence"], found
    conclusion = looks(7)["conclusion"]
    assert conclusion["kind"] == "gaps" and conclusion["head"] == "Registered is not observed."
    assert "its prefill follows the room, so nobody has to bind it" in conclusion["sentence"]


def ways(looks, room: int, *, proven: int) -> dict:
    return eventually(lambda: (said := looks(room))["proven"] >= proven and said, within=GENEROUS)


@pytest.mark.parametrize("method", ["round_robin", "follow_bootstrap_room"])
def test_OPS_04_the_room_of_a_real_pair_shows_all_five_rungs_with_the_names_of_both_workers(
    plane, token, looks, method
):
    how = {"instance": "default", "api": plane.web.url, "token": token}
    # With one DP group there is nothing to ask.
    with pair(plane.bootstrap, prefill={**how, "load_balance_method": method, "dp": 2}, decode=how) as both:
        request = both.request(prompts(1, seed=3)[0])
        leg = Leg(both.prefill.serve, request)
        tokens = both.decode.serve(request)["output_ids"]
        leg.end()
        assert tokens == both.expected(list(request.prompt))
        said = ways(looks, request.room, proven=5)
        assert [(rung["name"], rung["standing"]) for rung in said["rungs"]] == [(name, "passed") for name in RUNGS]
        assert said["conclusion"]["kind"] == "consumed" and said["conclusion"]["next"] == ""
        workers = {both.prefill.client._client.worker, both.decode.client._client.worker}
        told = {claim["who"] for rung in said["rungs"] for claim in rung["claims"] if claim["knowledge"] == "reported"}
        assert told == workers
        found = moments(said)
        assert found["registered"]["knowledge"] == ("observed" if method == "round_robin" else "reported")
        order = [found[name]["at"] for name in ("answered", "connected", "verified", "finished")]
        # Two workers tell their ages in reports of their own: a few milliseconds prove no order.
        assert None not in order
        if method == "round_robin":
            # Nobody needs to report that: the bootstrap process was asked.
            asked = eventually(
                lambda: (now := moments(looks(request.room)))["first asked"]["knowledge"] == "observed" and now,
                within=GENEROUS,
            )
            assert asked["answered"]["knowledge"] == "observed" and "127.0.0.1" in asked["answered"]["sentence"]
        else:
            gives_up_when_nobody_computes(both, looks)


def gives_up_when_nobody_computes(both: Pair, looks) -> None:
    """Where it stopped is said, by whom, and of the rest nothing that nobody saw."""
    request = both.request(prompts(1, seed=4)[0])
    leg = Leg(both.decode.serve, request)
    ways(looks, request.room, proven=2)
    both.decode.desk.abort("", "the client left")
    with pytest.raises(WorkerError):
        leg.end()
    said = eventually(lambda: (now := looks(request.room))["conclusion"]["kind"] == "failed" and now, within=GENEROUS)
    standings = [rung["standing"] for rung in said["rungs"]]
    assert standings == ["not_observed", "passed", "passed", "failed", "not_observed"]
    assert said["conclusion"]["head"] == "Failed at verified."
    assert "aborted" in said["conclusion"]["sentence"] and "the client left" in said["conclusion"]["sentence"]
    assert said["conclusion"]["next"].startswith("Nothing was consumed.")
    assert moments(said)["finished"]["sentence"].startswith("aborted at verified")
