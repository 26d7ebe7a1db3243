"""What one socket is told, and when: the stream itself, without a server around it."""

import asyncio
import contextlib
import itertools
import json

import pytest
from django.db import OperationalError

from controlplane.access import tokens
from controlplane.access.roles import Role, Who
from controlplane.ledger import look
from controlplane.ledger.hub import Hub
from controlplane.ledger.position import Position
from controlplane.ledger.tail import EventRow
from controlplane.live import messages, snapshots, sockets, stream, topic
from controlplane.live.codes import RESUME, Closed, Code
from controlplane.live.messages import Encoder
from controlplane.live.snapshots import Snapshots
from controlplane.live.stream import Stream
from controlplane.live.topic import Asked, Topic
from controlplane.models.access import MachineToken
from controlplane.queries.state import fleet_state
from tests.controlplane.live.scene import history, off_the_loop
from tests.support.stream import FINAL, GENEROUS, Reader

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


class Ear:
    """Takes what a stream tells, as a client does, and remembers when."""

    def __init__(self) -> None:
        self.reader = Reader("", headers={})
        self.heard: list[tuple[float, dict]] = []

    async def tell(self, text: str) -> None:
        message = json.loads(text)
        self.heard.append((asyncio.get_running_loop().time(), message))
        self.reader.take(message)

    async def until(self, true) -> None:
        async with asyncio.timeout(GENEROUS):
            while not true(self):
                await asyncio.sleep(0.01)

    def kinds(self) -> list[str]:
        return [message["type"] for _, message in self.heard]


@pytest.fixture
async def hub(on_backend):
    made = Hub(redis_url="")
    yield made
    await made.aclose()


@contextlib.asynccontextmanager
async def telling(hub, tell, asked=None, *, revoked=lambda: None):
    asked = asked or Asked(Topic())
    running = asyncio.create_task(Stream(hub, Snapshots(), Encoder(), asked, "vera", tell, revoked).run())
    try:
        yield running
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, Closed):
            await running


async def closed_with(running) -> Code:
    with pytest.raises(Closed) as closed:
        await asyncio.wait_for(running, GENEROUS)
    return closed.value.code


@ON_SQLITE
async def test_changes_are_told_together_at_most_ten_times_a_second_and_the_first_at_once(hub, fleet):
    ear = Ear()
    async with telling(hub, ear.tell):
        await ear.until(lambda ear: "snapshot" in ear.kinds())
        while ear.kinds().count("events") < 5:
            await asyncio.to_thread(fleet.change)
        cursor, state = await asyncio.to_thread(fleet_state)
        await ear.until(lambda ear: ear.reader.revision == cursor.revision)
    told = [at for at, message in ear.heard if message["type"] == "events"]
    assert min(later - earlier for earlier, later in itertools.pairwise(told)) > 0.095
    assert sum(len(message.get("events", [])) for _, message in ear.heard) > len(told)
    assert ear.reader.state == state
    assert [message["seq"] for _, message in ear.heard] == list(range(1, len(ear.heard) + 1))


@ON_SQLITE
async def test_a_large_fleet_comes_in_parts_and_half_of_it_is_no_state(hub, fleet, monkeypatch):
    monkeypatch.setattr(snapshots, "PART_BYTES", 100)
    ear = Ear()
    async with telling(hub, ear.tell):
        await ear.until(lambda ear: ear.kinds().count("snapshot") == 4)
    assert ear.reader.state == (await asyncio.to_thread(fleet_state))[1]
    assert len(ear.reader.shown) == 1


@ON_SQLITE
async def test_many_who_come_together_share_one_snapshot_but_none_from_before_the_ledger_was_replaced(
    on_backend, fleet
):
    shared, now = Snapshots(), asyncio.get_running_loop().time
    first = await asyncio.gather(*(shared.take(Topic(), not_before=0.0) for _ in range(5)))
    assert all(picture is first[0] for picture in first)
    assert await shared.take(Topic("prefill-a"), not_before=0.0) is not first[0]
    noticed = now()
    again = await asyncio.gather(*(shared.take(Topic(), not_before=noticed) for _ in range(5)))
    assert again[0] is not first[0]
    assert all(picture is again[0] for picture in again)


@ON_SQLITE
async def test_who_resumes_is_told_what_was_missed_and_no_snapshot(hub, fleet):
    before = await hub.known(GENEROUS)
    for _ in range(3):
        await asyncio.to_thread(fleet.change)
    ear = Ear()
    ear.reader.state = (await asyncio.to_thread(history))[str(before)]
    ear.reader.revision = before.revision
    async with telling(hub, ear.tell, Asked(Topic(), before)):
        head = (await asyncio.to_thread(fleet_state))[0]
        await ear.until(lambda ear: ear.reader.revision == head.revision)
    assert set(ear.kinds()) == {"hello", "events"}
    assert ear.reader.state == (await asyncio.to_thread(fleet_state))[1]


@ON_SQLITE
async def test_who_follows_one_instance_is_not_told_of_others_but_where_the_ledger_stands(hub, fleet, monkeypatch):
    monkeypatch.setattr(stream, "BEAT_SECONDS", 0.2)
    ear = Ear()
    fleet.names = ["prefill-b"]
    async with telling(hub, ear.tell, Asked(Topic("prefill-a"))):
        await ear.until(lambda ear: "snapshot" in ear.kinds())
        fleet.chance.seed(3)
        for _ in range(5):
            await asyncio.to_thread(fleet.change)
        head = (await asyncio.to_thread(fleet_state))[0]
        await ear.until(lambda ear: ear.reader.revision == head.revision)
    assert list(ear.reader.state["instances"]) == ["prefill-a"]
    assert ear.reader.state == (await asyncio.to_thread(fleet_state, "prefill-a"))[1]
    events = [event for _, message in ear.heard for event in message.get("events", [])]
    assert {event["instance"] for event in events} <= {"prefill-a", ""}


@ON_SQLITE
async def test_a_client_that_takes_nothing_is_given_up(hub, fleet, monkeypatch):
    monkeypatch.setattr(stream, "SLOW_SECONDS", 0.1)

    async def tell(text):
        await asyncio.Event().wait()

    async with telling(hub, tell) as running:
        assert await closed_with(running) == Code.TOO_SLOW


@ON_SQLITE
async def test_while_nothing_happens_it_beats_and_says_when_the_database_is_away(hub, fleet, monkeypatch):
    monkeypatch.setattr(stream, "BEAT_SECONDS", 0.1)
    ear = Ear()
    async with telling(hub, ear.tell):
        await ear.until(lambda ear: "beat" in ear.kinds())
        assert ear.heard[-1][1]["away"] is False
        monkeypatch.setattr(look.Looker, "look", _away)
        await ear.until(lambda ear: ear.heard[-1][1].get("away") is True)
    beats = [message for _, message in ear.heard if message["type"] == "beat"]
    assert all(beat["from"] == beat["to"] == ear.reader.revision for beat in beats)


@ON_SQLITE
async def test_without_a_database_nobody_is_kept_waiting_for_ever(hub, monkeypatch):
    monkeypatch.setattr(stream, "DATABASE_SECONDS", 0.3)
    real = look.Looker.look
    monkeypatch.setattr(look.Looker, "look", _away)
    async with telling(hub, Ear().tell) as running:
        assert await closed_with(running) == Code.TRY_LATER
    monkeypatch.setattr(look.Looker, "look", real)
    monkeypatch.setattr(snapshots, "_picture", _away)
    async with telling(hub, Ear().tell) as running:
        assert await closed_with(running) == Code.TRY_LATER


@ON_SQLITE
async def test_a_revoked_token_is_looked_at_at_once(hub, fleet, token):
    looked = asyncio.Event()
    ear = Ear()
    async with telling(hub, ear.tell, revoked=looked.set):
        await ear.until(lambda ear: "snapshot" in ear.kinds())
        token("read", name="lost")
        off_the_loop(_revoke)("lost")
        await asyncio.wait_for(looked.wait(), GENEROUS)


def _away(*args):
    raise OperationalError("away")


def _revoke(name):
    tokens.revoke(MachineToken.objects.get(name=name).token_key, "vera", "lost")


class Visitor:
    """A socket as the registry sees it."""

    def __init__(self) -> None:
        self.reconsidered = 0
        self.closed: list[Closed] = []

    def reconsider(self) -> None:
        self.reconsidered += 1

    def leave(self, closed: Closed) -> None:
        self.closed.append(closed)


async def test_nobody_stays_for_long_while_nobody_can_tell_whether_they_may(monkeypatch):
    """Here is no database at all."""
    monkeypatch.setattr(sockets, "BLIND_SECONDS", 0.0)
    monkeypatch.setattr(sockets.identity, "still", _away)
    registry, visitor = sockets.Sockets(limit=2), Visitor()
    registry.add(visitor)
    registry.admit(visitor, Who("vera", Role.VIEWER, key="s"))
    registry.look_soon()
    async with asyncio.timeout(GENEROUS):
        while not visitor.closed:
            await asyncio.sleep(0.01)
    assert visitor.closed[0].code == Code.TRY_LATER
    registry.remove(visitor)
    assert len(registry) == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", Asked(Topic())),
        (b"instance=a", Asked(Topic("a"))),
        (b"after=1f0c:7&instance=a", Asked(Topic("a"), Position("1f0c", 7))),
        (b"after=1f0c%3A7%3A00c0ffee", Asked(Topic(), Position("1f0c", 7, "00c0ffee"))),
    ],
)
def test_the_query_says_what_a_socket_is_about(query, expected):
    assert topic.read(query) == expected


def test_a_reason_fits_into_a_close_frame():
    assert len(Closed(Code.BAD_REQUEST, "ü" * 100).reason.encode()) <= 123


def test_a_good_client_gives_up_where_coming_again_does_not_help_and_nowhere_else():
    assert set(FINAL) == set(Code) - RESUME


def test_an_event_is_encoded_once():
    encoder, event = Encoder(), EventRow(7, 1.5, "rank.left", "a", "", "", {"launch": 1})
    assert encoder.encode(event) is encoder.encode(event)
    assert json.loads(encoder.encode(event))["at"] == "1970-01-01T00:00:01.500Z"
    assert messages.document(event)["sentence"].startswith("rank.left")
