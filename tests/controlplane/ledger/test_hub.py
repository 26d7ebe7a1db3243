"""The one reader of the ledger: what followers get, and that they notice when the past has changed."""

import asyncio
import sqlite3
import time

import pytest
from django.db import OperationalError, connections

from controlplane.commands.transaction import record
from controlplane.databases import FACTS
from controlplane.domain.errors import Refused
from controlplane.ledger import hub as hubs
from controlplane.ledger import position as positions
from controlplane.ledger.append import NewEvent
from controlplane.ledger.hub import Hub, Replaced
from controlplane.ledger.look import Looker
from controlplane.ledger.position import Position
from controlplane.ledger.tail import Cursor, head
from controlplane.models import Event, LedgerHead

GENEROUS = 30


@pytest.fixture
async def hub(on_backend):
    made = Hub(redis_url="")
    yield made
    await made.aclose()


def commit(count: int, kind: str = "test.happened") -> int:
    record(lambda: (None, [NewEvent(kind, "a", {"n": n}) for n in range(count)]))
    return head().revision


def go_back_to(revision: int) -> None:
    """As a restored backup does: same ledger, fewer events."""
    Event.objects.using(FACTS).filter(revision__gt=revision).delete()
    LedgerHead.objects.using(FACTS).update(revision=revision)


async def committed(count: int) -> int:
    # On a thread of this test's loop: its connections are of this test's database.
    return await asyncio.to_thread(commit, count)


async def taken(follower, count: int):
    found = []
    while len(found) < count:
        assert await follower.wait(GENEROUS), f"only {len(found)} of {count} events came"
        found += follower.take()
    return found


async def until(true) -> None:
    end = time.monotonic() + GENEROUS
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def replaced(follower) -> None:
    with pytest.raises(Replaced):
        while await follower.wait(GENEROUS):
            follower.take()


async def test_a_follower_gets_every_event_once_and_in_order(hub):
    start = await hub.known(GENEROUS)
    with hub.follow(start) as one, hub.follow(start) as other:
        last = await committed(3)
        last = await committed(4)
        for follower in (one, other):
            events = await taken(follower, 7)
            assert [event.revision for event in events] == list(range(last - 6, last + 1))
            assert follower.position.cursor == Cursor(start.ledger_id, last)
            assert follower.take() == []


async def test_more_than_one_look_can_hold_come_without_a_gap(hub, monkeypatch):
    monkeypatch.setattr("controlplane.ledger.look.BATCH", 5)
    start = await hub.known(GENEROUS)
    last = await committed(23)
    with hub.follow(start) as follower:
        events = await taken(follower, 23)
    assert [event.revision for event in events] == list(range(last - 22, last + 1))


async def test_what_came_before_the_hub_began_is_there_for_who_was_away(hub):
    last = await committed(10)
    head = await hub.known(GENEROUS)
    assert head.revision == last
    with hub.follow(Position(head.ledger_id, last - 4)) as follower:
        assert len(await taken(follower, 4)) == 4


async def test_a_position_too_far_behind_or_of_another_ledger_is_told_so(hub, monkeypatch):
    monkeypatch.setattr("controlplane.ledger.look.LATEST", 5)
    last = await committed(10)
    head = await hub.known(GENEROUS)
    for gone in (Position(head.ledger_id, last - 8), Position("another", last), Position(head.ledger_id, last + 5)):
        with hub.follow(gone) as follower:
            await replaced(follower)


async def test_a_position_that_was_read_after_the_hubs_last_look_is_waited_for_not_refused(hub):
    start = await hub.known(GENEROUS)
    last = await committed(2)
    with hub.follow(Position(start.ledger_id, last)) as follower:
        assert follower.take() == []
        await committed(1)
        assert [event.revision for event in await taken(follower, 1)] == [last + 1]


@pytest.mark.parametrize("passed_again", [0, 1, 5], ids=["head moved back", "head came back", "head passed it again"])
async def test_a_restored_backup_is_noticed_even_when_the_head_has_passed_again(hub, passed_again):
    await committed(5)
    start = await hub.known(GENEROUS)
    with hub.follow(start) as follower:
        last = await committed(1)
        await taken(follower, 1)

        def restore() -> None:
            go_back_to(last - 1)
            if passed_again:
                commit(passed_again, kind="test.other")

        await asyncio.to_thread(restore)
        await replaced(follower)
        # Who stood before what was lost goes on in the new history.
        with hub.follow(start) as earlier:
            events = await taken(earlier, passed_again) if passed_again else []
            assert [event.kind for event in events] == ["test.other"] * passed_again


async def test_another_ledger_id_and_a_gap_are_noticed(hub):
    start = await hub.known(GENEROUS)
    with hub.follow(start) as follower:
        await asyncio.to_thread(lambda: LedgerHead.objects.using(FACTS).update(ledger_id="restored"))
        await replaced(follower)
    last = await committed(4)
    with hub.follow(Position("restored", last)) as follower:

        def compact() -> None:
            commit(3)
            Event.objects.using(FACTS).filter(revision__lte=last + 2).delete()

        await asyncio.to_thread(compact)
        await replaced(follower)


async def test_a_long_poll_ends_at_an_event_at_a_ledger_that_moved_back_and_at_its_time(hub):
    now = await asyncio.to_thread(head)
    waiting = asyncio.create_task(hub.wait_beyond(now, GENEROUS))
    await hub.known(GENEROUS)
    last = await committed(1)
    await asyncio.wait_for(waiting, GENEROUS)
    for elsewhere in (now, Cursor(now.ledger_id, last + 1), Cursor("another", last)):
        began = time.monotonic()
        await hub.wait_beyond(elsewhere, GENEROUS)
        assert time.monotonic() - began < GENEROUS / 2
    began = time.monotonic()
    await hub.wait_beyond(Cursor(now.ledger_id, last), 0.4)
    assert time.monotonic() - began >= 0.4


async def test_a_database_that_does_not_answer_for_a_while_costs_nobody_an_event(hub, monkeypatch):
    start = await hub.known(GENEROUS)
    with hub.follow(start) as follower:
        real = hubs.Looker.look

        def fails(self, known):
            raise OperationalError("away")

        monkeypatch.setattr(hubs.Looker, "look", fails)
        await committed(2)
        await until(lambda: hub.away)
        monkeypatch.setattr(hubs.Looker, "look", real)
        assert len(await taken(follower, 2)) == 2
        assert not hub.away


async def test_it_ends_when_nobody_follows_and_starts_again_for_the_next(hub, monkeypatch):
    monkeypatch.setattr(hubs, "IDLE_SECONDS", 0)
    start = await hub.known(GENEROUS)
    await until(lambda: hub.position is None)
    await committed(2)
    with hub.follow(start) as follower:
        assert len(await taken(follower, 2)) == 2


async def test_a_loop_has_one_hub():
    assert hubs.hub() is hubs.hub()


def test_a_position_is_read_as_it_was_written_and_nothing_else_is():
    for position in (Position("1f0c-a", 7), Position("1f0c-a", 0), Position("1f0c-a", 7, "00c0ffee")):
        assert positions.read(str(position)) == position
    for wrong in ("", "7", "a:", ":7", "a:-1", "a:1:", "a:1:xyz", "a:1:00c0ffee:", "a:1 ", "a:" + "9" * 19, "ä:1"):
        with pytest.raises(Refused):
            positions.read(wrong)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_look_at_a_file_that_was_replaced_reads_the_new_one(on_backend, tmp_path):
    """A backup moved into place is another file: whoever has the old one open would read it for ever."""
    file = on_backend.data_dir / "controlplane.sqlite3"
    commit(2)
    with sqlite3.connect(file) as source, sqlite3.connect(tmp_path / "backup") as copy:
        source.backup(copy)
    commit(3)
    looker = Looker()
    known = looker.look(None).head
    connections[FACTS].close()
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    (tmp_path / "backup").rename(file)
    found = looker.look(known)
    assert found.anew
    assert found.head.revision == known.revision - 3
