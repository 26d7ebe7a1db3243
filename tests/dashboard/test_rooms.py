"""The pages of rooms: found by number, told as far as anything is known, and bounded whatever the journal holds."""

import re
import time

import pytest

from controlplane.databases import TRAFFIC
from controlplane.domain.topology import Topology
from controlplane.models import Instance, RoomBinding, RoomCollision, RoomReport
from controlplane.queries import memo
from tests.controlplane.queries.world import World
from tests.dashboard.conftest import queries
from tests.dashboard.many import many

ROOM = 7301442885913264061
TWO_GROUPS = Topology(2, 1, 2, 1)
LIST_QUERIES = 31
ROOM_QUERIES = 28
MOST_BYTES = 200_000


@pytest.fixture(autouse=True)
def _anew():
    memo.forget()


def serving(name: str = "prefill-a") -> World:
    world = World(name)
    world.launch(TWO_GROUPS, first_port=4000)
    return world


def bind(instance: int, dp: int = 1, *, room: int = ROOM, seconds: float = 100) -> None:
    expires = round((time.time() + seconds) * 1000)
    RoomBinding.objects.using(TRAFFIC).create(instance_id=instance, room=room, dp=dp, expires_ms=expires)


def collide(instance: int, *, room: int = ROOM) -> None:
    RoomCollision.objects.using(TRAFFIC).create(instance_id=instance, room=room, before=0, after=1, at=time.time() - 5)


def test_a_room_is_found_by_its_number(viewer):
    answer = viewer.client.get("/rooms/?room=+7301442885913264061 ")
    assert (answer.status_code, answer["Location"]) == (302, f"/rooms/{ROOM}/")


@pytest.mark.parametrize("path", ["/rooms/?room=x", "/rooms/?room=-1", f"/rooms/{2**63}/", "/rooms/1.5/", "/rooms/x/"])
def test_what_is_no_room_is_refused_with_a_sentence(viewer, path):
    assert "A room is a whole number from 0 to 2^63-1" in viewer.text(path, status=400)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/rooms/?instance=nobody", 404),
        ("/rooms/?collisions=x", 400),
        ("/rooms/?instance=prefill-a&after=x", 400),
        ("/rooms.csv", 400),
        ("/rooms.csv?instance=nobody", 404),
    ],
)
def test_a_question_that_makes_no_sense_is_a_page_and_no_failure(viewer, path, status):
    serving()
    assert "Request" in viewer.text(path, status=status)


def test_the_ladder_says_what_was_observed_and_of_the_rest_that_it_was_not(viewer):
    bind(serving().row.pk)
    said = viewer.text(f"/rooms/{ROOM}/")
    for words in (
        "Stops at registered.",
        "prefill-a dp1 holds this room",
        "1 of 5 rungs proven",
        "POST /register_dp_rank bound it to prefill-a dp1",
        "room mod 2 = 1: the same DP group as bound",
        "a decode that asks prefill-a now is told dp1",
        "2 of 2 registered",
        "10.0.0.1:4002",
        "2 of 2 answer",
    ):
        assert words in said, words
    for number, rung in ((2, "resolved"), (3, "connected"), (4, "verified"), (5, "consumed")):
        assert f"{number} {rung} not observed" in said
    assert said.count("passed") == 1


def report(rung: str, result: str = "passed", *, ago: float = 30, detail: str = "") -> None:
    at = time.time() - ago
    RoomReport.objects.using(TRAFFIC).create(
        room=ROOM,
        instance="prefill-a",
        rung=rung,
        result=result,
        source="decode-7/1",
        at=at,
        received_at=at,
        detail=detail,
    )


def test_what_workers_report_is_told_with_their_names_a_timeline_and_where_it_stopped(viewer):
    bind(serving().row.pk)
    report("resolved", ago=31)
    said = viewer.text(f"/rooms/{ROOM}/")
    assert "Stops at resolved." in said and "no connect seen within 5 s." in said and "2 of 5 rungs proven" in said
    report("connected", ago=30)
    report("verified", "other_room", ago=29, detail="the metadata is of <room> 7")
    said = viewer.text(f"/rooms/{ROOM}/")
    assert "Failed at verified." in said and "decode-7/1 reports other room at" in said
    assert "the metadata is of &lt;room&gt; 7" in viewer.get(f"/rooms/{ROOM}/")
    assert "other_room at verified" in said and re.search(r"\+\d\.\d{3} s", said) and "3 of 5 rungs proven" in said


def test_a_room_bound_twice_is_in_doubt_and_its_bindings_stand_below(viewer):
    pk = serving().row.pk
    bind(pk, 0), bind(pk, 1), collide(pk)
    said = viewer.text(f"/rooms/{ROOM}/")
    assert "in doubt" in said and "Whoever mints rooms must take a new one for each." in said
    assert "all 2 that the journal still has" in said and "dp0 → dp1" in said


def test_a_room_that_nobody_bound_says_where_it_would_go(viewer):
    serving()
    said = viewer.text(f"/rooms/{ROOM}/")
    assert "Nobody bound this room." in said and "a decode of prefill-a computes room mod 2 = 1 and asks nobody" in said
    assert "0 of 5 rungs proven" in said and "1 prefill follows the room" in said


def test_prefills_say_where_their_rooms_go_and_the_empty_fleet_teaches_a_command(viewer):
    assert "manage.py simulate --instance prefill-a" in viewer.text("/rooms/")
    memo.forget()
    collide(serving().row.pk)
    said = viewer.text("/rooms/")
    assert "room mod 2: nobody binds it" in said and "nobody counts them" in said and "dp0 → dp1" in said


def test_bound_rooms_of_an_instance_are_listed_as_of_a_moment_and_paged(viewer):
    pk = serving().row.pk
    for room in range(120):
        bind(pk, room % 2, room=room)
    first = viewer.get("/rooms/?instance=prefill-a")
    assert "/rooms/119/" in first and "/rooms/19/" not in first and "Older rooms" in first
    older = first.split("&amp;after=")[1].split('"')[0]
    assert "/rooms/19/" in viewer.get(f"/rooms/?instance=prefill-a&after={older}")
    # What is not of the ledger is not asked for again and again.
    assert "Older rooms" not in viewer.get("/rooms/?instance=prefill-a", parts="ways,collisions")
    sheet = viewer.get("/rooms.csv?instance=prefill-a")
    assert sheet.splitlines()[1].startswith("119,prefill-a,1,") and len(sheet.splitlines()) == 121


def test_names_are_shown_and_not_run(viewer):
    serving()
    page = viewer.get("/rooms/?q=<script>alert(1)</script>")
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


def test_pages_ask_as_much_and_weigh_as_little_with_many_as_with_one(viewer):
    pk = serving().row.pk
    bind(pk), collide(pk)

    def cost(path: str) -> int:
        memo.forget()
        with queries() as asked:
            page = viewer.get(path)
        assert len(page.encode()) < MOST_BYTES
        return len(asked)

    before = [cost("/rooms/?instance=prefill-a"), cost(f"/rooms/{ROOM}/")]
    many(120, Topology(2, 1, 8, 1), prefix="p")
    for number in range(150):
        bind(pk, room=number), bind(pk), collide(pk)
    other = Instance.objects.get(name="p0003").pk
    bind(other)
    assert [cost("/rooms/?instance=prefill-a"), cost(f"/rooms/{ROOM}/")] == before == [LIST_QUERIES, ROOM_QUERIES]


def test_whoever_is_not_signed_in_sees_no_room(stranger):
    assert stranger.client.get(f"/rooms/{ROOM}/").status_code == 302
    assert stranger.client.get("/rooms.csv?instance=a").status_code == 302


@pytest.mark.parametrize(
    ("rung", "ago", "result", "again"),
    [
        ("connected", 1, "passed", True),
        ("connected", 600, "passed", False),
        ("consumed", 1, "passed", False),
        ("verified", 1, "damaged", False),
    ],
)
def test_a_room_that_is_on_its_way_is_asked_for_again_soon_and_one_that_has_ended_as_seldom_as_any_page(
    viewer, rung, ago, result, again
):
    """Nobody tells the page: reports are not in the ledger."""
    serving()
    rungs = ("registered", "resolved", "connected", "verified", "consumed")
    for before in rungs[: rungs.index(rung)]:
        report(before, ago=ago + 0.5)
    report(rung, ago=ago, result=result)
    assert ('data-again="2"' in viewer.client.get(f"/rooms/{ROOM}/").content.decode()) == again
