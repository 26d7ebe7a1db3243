"""The relay's memory on disk: what was acknowledged is read back after any kill, and a torn end is no more than that."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import clean_env
from workers.relay.journal import NAME, Journal, JournalFailed
from workers.relay.records import Room, Taken, line


def rooms(*numbers: int) -> list[Room]:
    return [Room(n, n, 0, float(n)) for n in numbers]


def reread(directory: Path) -> list:
    journal = Journal(directory)
    try:
        return journal.open()
    finally:
        journal.close()


async def test_what_was_written_is_read_back_in_order(tmp_path):
    journal = Journal(tmp_path)
    assert journal.open() == []
    await asyncio.gather(*(journal.append(rooms(n)) for n in range(1, 500)))
    assert journal.size == (tmp_path / NAME).stat().st_size
    journal.close()
    assert reread(tmp_path) == rooms(*range(1, 500))


async def test_many_that_come_together_are_synced_together(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.open()
    syncs = []
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (syncs.append(file), sync(file)))
    await asyncio.gather(*(journal.append(rooms(n)) for n in range(1000)))
    journal.close()
    assert 1 <= len(syncs) < 500


def test_an_end_torn_at_any_byte_is_cut_off_and_written_on_after(tmp_path, caplog):
    whole, torn = b"".join(map(line, rooms(1, 2))), line(rooms(3)[0])
    for length in range(len(torn)):
        directory = tmp_path / str(length)
        directory.mkdir()
        (directory / NAME).write_bytes(whole + torn[:length])
        assert reread(directory) == rooms(1, 2)
        assert (directory / NAME).read_bytes() == whole
    assert "were not written whole; they are cut off" in caplog.text
    (tmp_path / "0" / NAME).write_bytes(whole + torn)
    assert reread(tmp_path / "0") == rooms(1, 2, 3)


def test_a_record_that_went_bad_in_the_middle_is_said_and_the_others_are_used(tmp_path, caplog):
    bad = line(rooms(2)[0]).replace(b'"dp":0', b'"dp":1')
    (tmp_path / NAME).write_bytes(line(rooms(1)[0]) + bad + b"\0\0\0\n" + line(rooms(3)[0]))
    with caplog.at_level(logging.ERROR):
        assert reread(tmp_path) == rooms(1, 3)
    assert "2 records before byte" in caplog.text


async def test_a_whole_new_journal_takes_the_place_of_the_old_and_what_follows_is_behind_it(tmp_path):
    journal = Journal(tmp_path)
    journal.open()
    first = journal.append(rooms(*range(100)))
    whole = journal.rewrite(rooms(98, 99))
    behind = journal.append([Taken(7)])
    await asyncio.gather(first, whole, behind)
    small = journal.size
    journal.close()
    assert reread(tmp_path) == [*rooms(98, 99), Taken(7)]
    assert small == (tmp_path / NAME).stat().st_size < 300
    (tmp_path / f"{NAME}.new").write_bytes(b"half of")
    assert reread(tmp_path) == [*rooms(98, 99), Taken(7)], "killed before it was whole"


async def test_a_full_disk_acknowledges_nothing_and_leaves_no_half_behind(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.open()
    await journal.append(rooms(1))
    write = os.pwrite

    def full(file: int, data: bytes, at: int) -> int:
        write(file, data[:10], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(JournalFailed, match="No space left"):
            await journal.append(rooms(2))
        with pytest.raises(JournalFailed, match="No space left"):
            await journal.rewrite(rooms(2))
    assert "No space left" in journal.trouble
    await journal.append(rooms(3))
    assert journal.trouble == ""
    journal.close()
    assert reread(tmp_path) == rooms(1, 3)


async def test_no_room_for_a_whole_new_journal_is_no_reason_to_acknowledge_nothing(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.open()
    await journal.append(rooms(1))
    write = os.pwrite

    def full(file: int, data: bytes, at: int) -> int:
        if len(data) > 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data, at)

    monkeypatch.setattr(os, "pwrite", full)
    first, whole, behind = journal.append(rooms(2)), journal.rewrite(rooms(*range(100))), journal.append(rooms(3))
    await asyncio.gather(first, behind)
    with pytest.raises(JournalFailed, match="No space left"):
        await whole
    assert not (tmp_path / f"{NAME}.new").exists(), "it takes the room that appending needs"
    journal.close()
    assert reread(tmp_path) == rooms(1, 2, 3)


async def test_nothing_is_written_to_a_journal_whose_name_another_has_already(tmp_path, monkeypatch):
    journal = Journal(tmp_path)
    journal.open()
    await journal.append(rooms(1))

    def broken(directory: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("workers.relay.journal._sync_directory", broken)
        with pytest.raises(JournalFailed, match="Input/output"):
            await journal.rewrite(rooms(2))
        with pytest.raises(JournalFailed, match="Input/output"):
            await journal.append(rooms(3))
    await journal.append(rooms(4))
    journal.close()
    assert reread(tmp_path) == rooms(2, 4)


def test_two_relays_never_share_a_directory_and_a_directory_that_cannot_be_used_is_said(tmp_path):
    first = Journal(tmp_path)
    first.open()
    with pytest.raises(JournalFailed, match=r"another relay uses .* give this one a directory of its own"):
        Journal(tmp_path).open()
    first.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalFailed, match="cannot be used"):
        Journal(tmp_path / "file" / "below").open()


KILLED = """
import asyncio, sys
from pathlib import Path
from workers.relay.journal import Journal
from workers.relay.records import Room

async def main():
    journal = Journal(Path(sys.argv[1]))
    number = len([r for r in journal.open() if isinstance(r, Room)])
    async def one(n):
        await journal.append([Room(n, n, 0, 0.0)])
        print(n, flush=True)
    while True:
        await asyncio.gather(*(one(number + n) for n in range(20)))
        number += 20
        if number % 200 == 0:
            await journal.rewrite([Room(n, n, 0, 0.0) for n in range(number)])

asyncio.run(main())
"""


def test_killed_at_any_moment_it_has_all_that_was_acknowledged(tmp_path):
    acknowledged = 0
    for lines in (1, 150, 420, 777):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        process = subprocess.Popen(command, env=clean_env(), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        heard = [int(process.stdout.readline()) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        heard += [int(said) for said in process.stdout.read().split("\n")[:-1]]
        process.wait()
        process.stdout.close()
        found = [record.n for record in reread(tmp_path)]
        assert found == sorted(found) and set(heard) <= set(found)
        acknowledged += len(heard)
    assert acknowledged > 1000
