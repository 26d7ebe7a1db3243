"""What a relay answers while nobody else can: who may tell it something, what becomes durable, and what it says of itself."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.wire.client import rank
from workers.relay import door, holding, keeping, processes
from workers.relay.processes import LaunchIdentity, process_of
from workers.relay.records import Owed

OUTSIDE = ("203.0.113.7", 4000)


@pytest.fixture(autouse=True)
def unseen(monkeypatch):
    """Nobody's process is seen, unless a test says whose it is."""
    monkeypatch.setattr(door, "_seen", lambda request: None)


def seen(monkeypatch, launch: str, token: str | None = None) -> None:
    me = process_of(os.getpid())
    assert me is not None
    monkeypatch.setattr(door, "_seen", lambda request: (me, LaunchIdentity(launch, token)))


async def test_who_is_not_of_this_hosts_networks_may_read_and_not_write(inside):
    relay = inside()
    for path, js in (
        ("/register_dp_rank", {"bootstrap_room": 1, "dp_rank": 0}),
        ("/pd/v1/heartbeats", {"worker": "w"}),
    ):
        said = await relay.ask("POST", path, js=js, peer=OUTSIDE)
        assert (said.status, b"--networks" in said.body) == (403, True)
    assert (await relay.ask("PUT", "/route", js=rank(), peer=OUTSIDE)).status == 403
    assert (await relay.put()).status == 200
    for path in ("/health", "/pd/v1/relay", "/livez"):
        assert (await relay.ask("GET", path, peer=OUTSIDE)).status == 200
    assert (await relay.topology()).status == 200 and await relay.find(1) == {}


async def test_what_was_acknowledged_is_there_after_a_kill(inside):
    relay = inside()
    assert (await relay.put(token="a")).status == 200
    assert await relay.bind(7, 0) == 200
    told = await relay.topology()
    await relay.close()
    again = inside()
    assert (await again.topology()).body == told.body
    assert await again.find(7, 8) == {"7": 0}
    assert again.keeping.rooms.pending == 1 and len(again.keeping.holding.pending(again.keeping.alive)) == 1


async def test_rooms_are_answered_for_their_time_and_the_last_word_counts(inside):
    relay = inside(room_seconds=10)
    assert await relay.bind(7, 0) == 200
    relay.now += 6
    assert [await relay.bind(7, 1), await relay.bind(2**63 - 1, 0)] == [200, 200]
    assert await relay.find(2**63 - 1, 7) == {str(2**63 - 1): 0, "7": 1}
    relay.now += 9
    assert await relay.find(7, 2**63 - 1) == {"7": 1, str(2**63 - 1): 0}
    relay.now += 1.1
    assert await relay.find(7, 2**63 - 1) == {}
    relay.keeping.look()
    assert len(relay.keeping.rooms) == 0
    assert (await relay.ask("POST", "/register_dp_rank", js={"bootstrap_room": -1, "dp_rank": 0})).status == 400


async def test_a_dp_rank_that_nobody_has_is_a_mistake(inside):
    relay = inside()
    assert await relay.bind(1, 5) == 200, "nobody knows yet how many there are"
    await relay.put(attn_dp_size=2)
    assert [await relay.bind(1, 1), await relay.bind(1, 2)] == [200, 400]


async def test_rooms_are_bounded_and_the_oldest_go(inside):
    relay = inside(most_rooms=5)
    for room in range(8):
        assert await relay.bind(room, 0) == 200
    assert await relay.find(*range(8)) == {str(room): 0 for room in range(3, 8)}
    assert (relay.keeping.rooms.dropped, relay.keeping.rooms.pending) == (3, 5)


async def test_the_journal_is_written_anew_before_it_is_long_and_nothing_is_lost_by_it(inside, monkeypatch):
    monkeypatch.setattr(keeping, "REWRITE_FROM", 2000)
    relay = inside(room_seconds=10)
    await relay.put(token="a")
    for room in range(200):
        relay.now += 0.1
        await relay.bind(room, 0)
        relay.keeping.look()
    before = await relay.find(*range(200))
    assert 90 <= len(before) <= 101
    await relay.close()
    assert relay.keeping.journal.size < 15_000
    again = inside(now=relay.now, room_seconds=10)
    again.keeping.refresh()
    assert await again.find(*range(200)) == before and (await again.topology()).status == 200


async def test_rooms_after_a_restart_are_numbered_behind_those_that_are_over(inside):
    relay = inside(room_seconds=10)
    for room in range(70):
        await relay.bind(room, 0)
    relay.keeping.rooms.took(70)
    relay.now += 60.0
    relay.keeping.look()
    await relay.keeping.journal.rewrite(relay.keeping.records())
    await relay.close()
    relay = inside(now=relay.now, room_seconds=10)
    for room in (100, 101, 102):
        await relay.bind(room, 0)
    first, *_ = relay.keeping.rooms.next_pending(1, relay.now)
    relay.keeping.rooms.took(first.n)
    assert relay.keeping.rooms.pending == 2, "what was not told is still to be told"


async def test_a_clock_that_was_set_back_lets_nothing_last_longer(inside):
    relay = inside(room_seconds=10)
    relay.now += 86_400.0
    await relay.put()
    await relay.bind(1, 0)
    await relay.keeping.journal.append([Owed(relay.now)])
    await relay.close()
    back = inside(room_seconds=10)
    assert (await back.find(1), await back.health()) == ({"1": 0}, 503)
    back.now += 61.0
    back.keeping.refresh()
    assert (await back.find(1), await back.health()) == ({}, 200)


async def test_a_full_disk_acknowledges_nothing(inside, monkeypatch):
    relay = inside()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        said = await relay.put()
        assert (said.status, b"nothing was acknowledged" in said.body) == (503, True)
        assert await relay.bind(1, 0) == 503
    assert (await relay.put()).status == 200


async def test_one_launch_of_an_engine_has_one_token_and_the_next_another(inside, monkeypatch):
    relay = inside()
    seen(monkeypatch, "run:1")
    await relay.put(attn_tp_size=2)
    await relay.put(attn_tp_size=2, attn_tp_rank=1, rank_port=41001)
    await relay.close()
    relay = inside()
    await relay.put(attn_tp_size=2, attn_tp_rank=1, rank_port=41001)
    (held,) = relay.keeping.holding.launches
    assert held.launch.full and len(held.launch.token) == 32
    seen(monkeypatch, "run:2")
    await relay.put(rank_port=42000)
    assert len({held.launch.token for held in relay.keeping.holding.launches}) == 2


async def test_a_rank_is_gone_when_its_process_is_and_nobody_listens_for_it(inside, monkeypatch):
    relay = inside()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    there = process_of(child.pid)
    monkeypatch.setattr(door, "_seen", lambda request: (there, LaunchIdentity("run:1")))
    monkeypatch.setattr(keeping, "LIFE_SECONDS", 0.0)
    monkeypatch.setattr(keeping, "PORTS_SECONDS", 0.0)
    ports = {41000}
    monkeypatch.setattr(processes, "listening", lambda: frozenset(ports))
    for tp in range(2):
        await relay.put(attn_tp_size=2, attn_tp_rank=tp, rank_port=41000 + tp)
    first, second = relay.keeping.holding.seats()
    assert [relay.keeping.alive(seat) for seat in (first, second)] == [True, True]
    child.kill()
    child.communicate()
    # The first was registered by somebody for another, it seems.
    assert [relay.keeping.alive(seat) for seat in (first, second)] == [None, False]
    ports.add(41001)
    assert relay.keeping.alive(second) is False, "what ended does not come back; its port is somebody else's now"
    seen(monkeypatch, "run:2")
    await relay.put(attn_tp_size=2, attn_tp_rank=1, rank_port=41000)
    assert relay.keeping.alive(first) is False, "another rank registered from its address"


async def test_a_token_that_is_sent_counts_and_one_in_the_environment_too(inside, monkeypatch):
    relay = inside()
    seen(monkeypatch, "token:of-the-launcher", "of-the-launcher")
    await relay.put(attn_tp_size=2)
    await relay.ask(
        "PUT", "/route", js=rank(attn_tp_size=2, attn_tp_rank=1), x_sglang_disaggregation_instance_id="sent"
    )
    assert [held.launch.token for held in relay.keeping.holding.launches] == ["of-the-launcher", "sent"]


async def test_when_a_rank_of_another_host_comes_nobody_has_a_token(inside, monkeypatch, caplog):
    relay = inside()
    with monkeypatch.context() as patched:
        seen(patched, "run:1")
        await relay.put(attn_tp_size=2)
    assert (await relay.put(attn_tp_size=2, attn_tp_rank=1, rank_ip="10.0.1.11")).status == 200
    (held,) = relay.keeping.holding.launches
    assert held.launch.token is None and held.launch.full, "they are one launch"
    assert "a rank on another host registered here" in caplog.text
    seen(monkeypatch, "run:2")
    await relay.put(attn_tp_size=2, rank_port=42000)
    assert {held.launch.token for held in relay.keeping.holding.launches} == {None}
    await relay.close()
    again = inside()
    assert {held.launch.token for held in again.keeping.holding.launches} == {None}


async def test_malformed_requests_are_refused_with_the_field(inside):
    relay = inside()
    for facts, sentence in (
        ({"rank_port": 70000}, b"rank_port must be between 1 and 65535"),
        ({"attn_tp_rank": 3}, b"tp rank 3 does not exist in a topology of 1"),
        ({"rank_ip": "0.0.0.0"}, b"rank_ip"),
    ):
        said = await relay.put(**facts)
        assert (said.status, sentence in said.body) == (400, True)
    assert (await relay.ask("PUT", "/route", body=b"{" + b" " * 70_000)).status == 413
    assert (await relay.ask("PUT", "/route", js=rank(), x_pd_generation="x" * 200)).status == 400
    assert (await relay.ask("DELETE", "/route")).status == 405
    assert (await relay.ask("GET", "/nowhere")).status == 404
    assert relay.keeping.holding.launches == []


async def test_the_same_refusal_is_logged_once_a_minute_and_not_for_ever_more(inside, caplog):
    relay = inside()
    for _ in range(5):
        await relay.put(rank_port=70000)
    assert caplog.text.count("was refused: rank_port must be") == 1
    for port in range(70001, 70201):
        await relay.put(rank_port=port)
    assert 90 < caplog.text.count("was refused: rank_port must be") <= door.MOST_COMPLAINTS


async def test_more_ranks_than_can_be_held_are_refused_here_and_the_others_are_kept(inside, monkeypatch):
    monkeypatch.setattr(holding, "MOST_SEATS", 2)
    relay = inside()
    said = [(await relay.put(token="a", attn_tp_size=3, attn_tp_rank=n, rank_port=41000 + n)).status for n in range(3)]
    assert said == [200, 200, 503]
    assert (await relay.put(token="a", attn_tp_size=3, attn_tp_rank=1, rank_port=42000)).status == 200


async def test_a_decodes_whole_question_is_answered_from_here_too(inside):
    relay = inside()
    asked = {"decode": {"tp_size": 1, "is_mla": False, "page_size": 64}}
    assert (await relay.ask("POST", "/pd/v1/resolve", js=asked)).status == 503
    await relay.put()
    said = await relay.ask("POST", "/pd/v1/resolve", js=asked)
    (told,) = json.loads(said.body)["ranks"]
    assert told["groups"][0]["targets"][0]["address"] == "10.0.1.10:41000"
    etag = said.headers.decode().removeprefix("etag: ").strip()
    assert (await relay.ask("POST", "/pd/v1/resolve", js=asked, if_none_match=etag)).status == 304
    assert (await relay.ask("POST", "/pd/v1/resolve", js={**asked, "instance": "other"})).status == 400
    wrong = {"decode": {**asked["decode"], "page_size": 1}}
    assert (await relay.ask("POST", "/pd/v1/resolve", js=wrong)).status == 409


async def test_a_worker_that_beats_is_told_nothing_while_nobody_counts(inside):
    relay = inside()
    said = await relay.ask("POST", "/pd/v1/heartbeats", js={"worker": "w", "slots": [[0, 0, 0, 0]]})
    assert json.loads(said.body) == {"directives": [], "launch": None}


async def test_it_counts_what_a_scrape_wants(inside):
    relay = inside(most_rooms=2)
    await relay.put(token="a")
    for room in range(3):
        await relay.bind(room, 0)
    await relay.topology()
    said = (await relay.ask("GET", "/metrics")).body.decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(said)
        for sample in family.samples
    }
    assert found["pd_relay_together",] == 0 and found["pd_relay_serving",] == 1 and found["pd_relay_rooms",] == 2
    assert found["pd_relay_pending", "registrations"] == 1 and found["pd_relay_pending", "rooms"] == 2
    assert found["pd_relay_answered_total", "relay"] == 1 and found["pd_relay_rooms_dropped_total",] == 1
    assert found["pd_relay_journal_bytes",] > 0


async def test_it_says_how_it_is(inside):
    relay = inside()
    await relay.put(token="a")
    await relay.bind(1, 0)
    await relay.topology()
    told = json.loads((await relay.ask("GET", "/pd/v1/relay")).body)
    assert (told["relay"], told["instance"], told["health"], told["rooms"]) == ("relay/test", "p", 200, 1)
    assert told["control_plane"]["state"] == "away"
    assert told["control_plane"]["to_be_told"] == {"registrations": 1, "rooms": 1}
    (launch,) = told["launches"]
    assert (launch["token"], launch["registered"], launch["of"]) == ("a", 1, 1)
    assert launch["ranks"][0] | {"address": "10.0.1.10:41000", "told": False, "alive": None} == launch["ranks"][0]
    assert told["answered"] == {"control plane": 0, "relay": 1}
