"""The stream of a real web process: whatever happens, everybody ends where a fresh snapshot is, and by true states."""

import asyncio
import contextlib
import json
import socket

import psycopg
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from controlplane.queries.state import fleet_state
from tests.controlplane.live.scene import Backup, Changes, Fleet, history, register, say_at_length
from tests.support.stream import GENEROUS, Reader, reading


async def settled(readers, instance=""):
    """Wait until every reader is at the head; there each holds what a snapshot of then says."""
    async with asyncio.timeout(GENEROUS):
        while True:
            cursor, expected = await asyncio.to_thread(fleet_state, instance or None)
            if all((reader.ledger, reader.revision) == (cursor.ledger_id, cursor.revision) for reader in readers):
                break
            await asyncio.sleep(0.05)
    for reader in readers:
        assert reader.state == expected


async def begun(readers):
    for reader in readers:
        await reader.upto(0)


@contextlib.asynccontextmanager
async def changing(fleet, *, per_second=100):
    changes = Changes(fleet, per_second=per_second)
    changes.start()
    try:
        yield changes
    finally:
        await asyncio.to_thread(changes.stop)


def assert_committed(readers, *histories):
    """Whatever a reader has shown at a position is what was true then, in one of the histories."""
    for reader in readers:
        assert reader.shown
        for cursor, state in reader.shown:
            assert any(known.get(cursor) == state for known in histories), f"shown at {cursor}, and was never committed"


async def test_events_lead_from_a_snapshot_to_the_state_that_a_fresh_one_has(
    make_web, make_bootstrap, on_backend, token
):
    bootstrap = make_bootstrap(on_backend, PDCP_PROBE_NETWORKS="none").start()
    fleet = Fleet(["prefill-a", "prefill-b"])
    await asyncio.to_thread(fleet.open)
    web = make_web()
    whole = [Reader(web.socket_url, headers=token("read")) for _ in range(2)]
    one = Reader(web.socket_url, headers=token("read", instance="prefill-a"), instance="prefill-a")
    async with reading(*whole, one):
        await begun([*whole, one])
        async with changing(fleet):
            for launch in (2, 4):
                await asyncio.to_thread(lambda tp=launch: register(bootstrap.kv_url, "prefill-a", dp=2, tp=tp))
        await asyncio.to_thread(register, bootstrap.kv_url, "newcomer", dp=1, tp=1)
        await settled(whole)
        assert "newcomer" in whole[0].state["instances"]
        # Whoever follows one instance is told so far as that one goes; a beat brings them to the head.
        _, expected = await asyncio.to_thread(fleet_state, "prefill-a")
        await one.until(lambda reader: reader.state == expected)
        assert list(one.state["instances"]) == ["prefill-a"]
    assert_committed(whole, await asyncio.to_thread(history))
    assert_committed([one], await asyncio.to_thread(history, "prefill-a"))
    assert all(reader.whys == ["start"] for reader in [*whole, one])


async def crowd(web, fleet, token, *, sockets, checked, seconds):
    headers = token("read")
    readers = [Reader(web.socket_url, headers=headers) for _ in range(sockets)]
    async with reading(*readers):
        await begun(readers)
        async with changing(fleet) as changes:
            await asyncio.sleep(seconds)
        await settled(readers)
    known = await asyncio.to_thread(history)
    assert_committed(readers[:checked], known)
    assert all(reader.connections == 1 and reader.whys == ["start"] for reader in readers)
    return changes.count


async def test_many_sockets_under_a_hundred_changes_a_second_end_on_the_state_of_a_fresh_snapshot(
    make_web, fleet, token
):
    await crowd(make_web(), fleet, token, sockets=60, checked=10, seconds=3)


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_two_hundred_sockets_under_a_hundred_changes_a_second_for_ten_seconds_end_there_too(
    make_web, fleet, token
):
    assert await crowd(make_web(), fleet, token, sockets=200, checked=20, seconds=10) > 500


async def test_cut_sockets_a_killed_web_process_and_a_redis_that_goes_and_comes_lose_nothing(
    make_web, fleet, token, redis
):
    web = make_web(REDIS_URL=redis.url)
    headers = token("read")
    readers = [Reader(web.socket_url, headers=headers) for _ in range(5)]
    async with reading(*readers):
        await begun(readers)
        async with changing(fleet, per_second=50):
            for disaster in (
                lambda: [reader.cut() for reader in readers[:3]],
                redis.kill9,
                web.kill9,
                web.start,
                redis.start,
                web.terminate,
                web.start,
            ):
                disaster()
                await asyncio.sleep(0.4)
        await settled(readers)
    assert_committed(readers, await asyncio.to_thread(history))
    # Nobody needed a second snapshot: what they missed is in the ledger.
    assert all(reader.whys == ["start"] for reader in readers)
    assert all(reader.connections >= 3 for reader in readers)
    assert any(1012 in reader.codes for reader in readers)


@pytest.mark.parametrize("web_is", ["up", "down"])
async def test_a_restored_backup_is_a_new_snapshot_and_never_a_mixture(make_web, fleet, token, web_is):
    web = make_web()
    headers = token("read")
    readers = [Reader(web.socket_url, headers=headers) for _ in range(3)]
    histories = []

    def make(changes):
        for _ in range(changes):
            fleet.change()

    async with reading(*readers):
        await begun(readers)
        # First the head moves back; then it has passed what readers have seen before anybody looks.
        for changes_after in (0, 20):
            await asyncio.to_thread(make, 10)
            await settled(readers)
            backup = await asyncio.to_thread(Backup)
            await asyncio.to_thread(make, 6)
            await settled(readers)
            histories.append(await asyncio.to_thread(history))
            if web_is == "down":
                web.kill9()
            await asyncio.to_thread(lambda more=changes_after, by=backup: by.restore(then=lambda: make(more)))
            if web_is == "down":
                web.start()
            await settled(readers)
        await asyncio.to_thread(make, 3)
        await settled(readers)
    assert_committed(readers, *histories, await asyncio.to_thread(history))
    assert all(reader.whys == ["start", "replaced", "replaced"] for reader in readers)


async def test_who_comes_with_a_cursor_that_nobody_knows_begins_anew(make_web, fleet, token):
    web = make_web()
    cursor, _ = await asyncio.to_thread(fleet_state)
    ledger, revision = cursor.ledger_id, cursor.revision
    for after in (f"another:{revision}", f"{ledger}:{revision + 9}", f"{ledger}:{revision - 1}:00000000"):
        reader = Reader(web.socket_url, headers=token("read"), after=after)
        async with reading(reader):
            await reader.upto(revision, ledger=ledger)
            await settled([reader])
        assert reader.whys == ["replaced"]


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_a_database_that_is_locked_for_longer_than_anybody_waits_only_delays(make_web, fleet, token, on_backend):
    web = make_web()
    readers = [Reader(web.socket_url, headers=token("read")) for _ in range(2)]
    async with reading(*readers):
        await begun(readers)

        def stall():
            with psycopg.connect(on_backend.database_url) as connection:
                connection.execute("LOCK TABLE controlplane_event, controlplane_ledgerhead IN ACCESS EXCLUSIVE MODE")
                connection.execute("SELECT pg_sleep(4)")

        await asyncio.to_thread(stall)
        await asyncio.to_thread(fleet.change)
        await settled(readers)
    assert all(reader.connections == 1 and reader.whys == ["start"] for reader in readers)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_client_that_takes_nothing_is_dropped_with_a_code_and_nobody_waits_for_it(make_web, fleet, token):
    web = make_web()
    headers = token("read")
    others = [Reader(web.socket_url, headers=headers) for _ in range(3)]
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    narrow.connect(("127.0.0.1", web.port))
    options = {"additional_headers": headers, "max_size": None, "max_queue": 1, "compression": None}
    async with connect(web.socket_url, sock=narrow, ping_interval=None, close_timeout=1, **options) as idle:
        async with reading(*others):
            await begun(others)
            said = 0
            async with asyncio.timeout(60):
                while "code=4408" not in web.log():
                    await asyncio.to_thread(say_at_length, 100)
                    said += 1
                    # The others have everything while this one still blocks its own way.
                    await settled(others)
            assert said > 10
        # It is told why as soon as it takes anything again, and resumes from the last that it has.
        late = Reader(web.socket_url, headers=headers)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                late.take(json.loads(await idle.recv()))
        assert closed.value.rcvd.code == 4408
    shown = len(late.shown)
    async with reading(late):
        await settled([late])
    assert len(late.shown) > shown
    assert late.whys == ["start"]
    assert all(reader.connections == 1 for reader in others)
