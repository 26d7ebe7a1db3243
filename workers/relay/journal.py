"""The relay's memory on disk: appended and fsynced before anybody is told OK, many at once; read back after any kill."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import queue
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from .records import Record, line, read

log = logging.getLogger(__name__)

NAME = "journal"
READ_LIMIT = 1 << 30
MOST_TOGETHER = 4096


class JournalFailed(Exception):
    """Nothing was written; the text is a sentence."""


class _Work:
    """Bytes to append, or the whole of a new journal."""

    def __init__(self, data: bytes, *, whole: bool) -> None:
        self.data, self.whole = data, whole
        self.done: Future[None] = Future()


class Journal:
    """One file in a directory that one process holds. `open()` reads what is there; then `append` and `rewrite`, in order.

    `size` is the length of the file in bytes, `rewritten` what it was when it was last written whole.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._directory = directory
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._file = -1
        self._lock = -1
        self._renamed = False
        self.size = 0
        self.rewritten = 0
        self.trouble = ""

    def open(self) -> list[Record]:
        """The records in order. A torn end (killed while writing) is cut off: nobody was told OK for it. Raises JournalFailed."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise JournalFailed(
                f"another relay uses {self._directory}; give this one a directory of its own (--data)"
            ) from None
        except OSError as problem:
            self.close()
            raise JournalFailed(f"{self._directory} cannot be used (--data): {problem.strerror}") from None
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            records = self._recover()
        except OSError as problem:
            self.close()
            raise JournalFailed(f"{self.path} cannot be read: {problem.strerror}") from None
        self._thread = threading.Thread(target=self._write_for_ever, name="journal", daemon=True)
        self._thread.start()
        return records

    def append(self, records: Iterable[Record]) -> asyncio.Future[None]:
        """Done when they are on disk. Raises JournalFailed from the future."""
        return self._submit(b"".join(map(line, records)), whole=False)

    def rewrite(self, records: Iterable[Record]) -> asyncio.Future[None]:
        """Put these in the place of all that was written before; what is appended afterwards goes behind them."""
        return self._submit(b"".join(map(line, records)), whole=True)

    def close(self) -> None:
        """What was submitted is written first."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1

    def _submit(self, data: bytes, *, whole: bool) -> asyncio.Future[None]:
        work = _Work(data, whole=whole)
        self._queue.put(work)
        return asyncio.wrap_future(work.done)

    def _recover(self) -> list[Record]:
        size = os.fstat(self._file).st_size
        if size > READ_LIMIT:
            raise JournalFailed(f"{self.path} has {size} bytes, which no journal of a relay has; move it away")
        with self.path.open("rb") as file:
            data = file.read()
        records, good, at, broken = [], 0, 0, 0
        while at < len(data):
            end = data.find(b"\n", at)
            record = read(data[at:end]) if end >= 0 else None
            at = end + 1 if end >= 0 else len(data)
            if record is None:
                broken += 1
                continue
            if broken:
                # Something behind it is whole, so this was no torn end.
                log.error("%s: %d records before byte %d cannot be read; the others are used", self.path, broken, good)
            records.append(record)
            good, broken = at, 0
        if good < len(data):
            log.warning(
                "%s ends in %d bytes that were not written whole; they are cut off", self.path, len(data) - good
            )
            os.ftruncate(self._file, good)
            os.fsync(self._file)
        _sync_directory(self._directory)
        self.size = self.rewritten = good
        return records

    def _write_for_ever(self) -> None:
        while (first := self._queue.get()) is not None:
            together, last = [first], False
            while len(together) < MOST_TOGETHER and not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    last = True
                    break
                together.append(more)
            self._write(together)
            if last:
                return

    def _write(self, works: Sequence[_Work]) -> None:
        """In order: whatever stands before a whole journal is contained in it. One that cannot be written leaves the others
        as they are."""
        start = max((n for n, work in enumerate(works) if work.whole), default=-1)
        first, rest, before, self.trouble = works[: start + 1], works[start + 1 :], self.trouble, ""
        if first:
            try:
                self._replace(works[start].data)
            except OSError as problem:
                self._say(problem, before)
                _failed([work for work in works if work.whole], self.trouble)
                first, rest = [], [work for work in works if not work.whole]
        try:
            self._append(b"".join(work.data for work in rest))
        except OSError as problem:
            self._say(problem, before)
            _failed([*first, *rest], self.trouble)
        else:
            _done([*first, *rest])

    def _say(self, problem: OSError, before: str) -> None:
        self.trouble = f"{self.path} cannot be written: {problem.strerror}"
        if self.trouble != before:
            log.error("%s", self.trouble)

    def _append(self, data: bytes) -> None:
        """Always from where the last whole record ends: half of one that could not be written stands in nobody's front."""
        if self._renamed:
            _sync_directory(self._directory)
            self._renamed = False
        if not data:
            return
        try:
            _write_all(self._file, data, self.size)
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(data)

    def _replace(self, data: bytes) -> None:
        fresh = self._directory / f"{NAME}.new"
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write_all(file, data, 0)
            os.fsync(file)
            fresh.replace(self.path)
        except OSError:
            os.close(file)
            with suppress(OSError):
                # It takes the room that appending needs.
                fresh.unlink()
            raise
        # From here on it is the journal, whatever comes: what is appended to the other one would be lost.
        old, self._file, self._renamed = self._file, file, True
        self.size = self.rewritten = len(data)
        with suppress(OSError):
            os.close(old)


def _done(works: Sequence[_Work]) -> None:
    for work in works:
        if work.done.set_running_or_notify_cancel():
            work.done.set_result(None)


def _failed(works: Sequence[_Work], trouble: str) -> None:
    for work in works:
        if work.done.set_running_or_notify_cancel():
            work.done.set_exception(JournalFailed(trouble))


def _write_all(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
