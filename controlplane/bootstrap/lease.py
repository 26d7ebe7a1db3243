"""Who may write: one row that is renewed, a token that fences every commit, and a file lock that notices a death at once.

Clocks of different hosts are never compared: a stand-by takes over when it has seen no renewal for a whole lease by
its own clock, and a leader stops answering before that by its own.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.db import OperationalError, connections

from controlplane.databases import FACTS, TRAFFIC
from controlplane.ledger.cursor import cursor
from controlplane.ledger.failures import FencedOut

READ = "SELECT token, holder, expires_at FROM controlplane_lease WHERE name = 'bootstrap'"
TAKE = "UPDATE controlplane_lease SET token = %s, holder = %s, expires_at = %s WHERE name = 'bootstrap'"
RENEW = "UPDATE controlplane_lease SET expires_at = %s WHERE name = 'bootstrap' AND token = %s"
RELEASE = "UPDATE controlplane_lease SET expires_at = 0 WHERE name = 'bootstrap' AND token = %s"
READ_FENCE = "SELECT token FROM controlplane_trafficfence WHERE id = 1"
FENCE = "UPDATE controlplane_trafficfence SET token = %s WHERE id = 1"


@dataclass(frozen=True, slots=True)
class Seen:
    """The lease as read, and when by our own clock it looked like that first."""

    token: int
    holder: str
    stamp: float
    since: float


class Lease:
    """Blocking calls; each belongs in a thread. `seconds` is how long a silent leader stays leader."""

    def __init__(self, lock_file: Path, seconds: float, *, beat_file: Path | None = None) -> None:
        self.seconds = seconds
        # With SQLite the beat is a file: whoever holds the database's write lock must not cost us the lease.
        self._beat_file = beat_file
        self.token = 0
        self._host = f"{socket.gethostname()}:{_boot_id()}:{lock_file.resolve()}"
        self._lock_file = lock_file
        self._lock: IO[str] | None = None
        self._seen: Seen | None = None

    @property
    def holder(self) -> str:
        return f"{self._host} pid {os.getpid()}"

    def try_take(self) -> bool:
        """Become leader if the seat is free: released, dead by its file lock, or silent for a whole lease."""
        row = self._read()
        now = time.monotonic()
        token, holder, stamp = row
        if self._seen is None or (self._seen.token, self._seen.stamp) != (token, stamp):
            self._seen = Seen(token, holder, stamp, now)
        locked = self._try_lock()
        # The kernel lets go of a dead process's lock; but a leader may have taken over without it.
        dead_here = locked and self._is_gone(holder)
        silent = now - self._seen.since >= self.seconds
        if stamp and not dead_here and not silent:
            self._unlock()
            return False
        return self._take(token)

    def _take(self, seen_token: int) -> bool:
        connection = connections[FACTS]
        postgres = connection.vendor == "postgresql"
        with cursor(FACTS) as c:
            c.execute("BEGIN" if postgres else "BEGIN IMMEDIATE")
            try:
                # FOR UPDATE waits for commits that are proving the old token right now.
                c.execute(READ + (" FOR UPDATE" if postgres else ""))
                if c.fetchone()[0] != seen_token:
                    c.execute("ROLLBACK")
                    return False
                c.execute(TAKE, (seen_token + 1, self.holder, time.time()))
                c.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
        self.token = seen_token + 1
        self._beat()
        with cursor(TRAFFIC) as c:
            c.execute("BEGIN" if postgres else "BEGIN IMMEDIATE")
            try:
                # An UPDATE alone would not wait for those who hold the row FOR KEY SHARE.
                c.execute(READ_FENCE + (" FOR UPDATE" if postgres else ""))
                c.execute(FENCE, (self.token,))
                c.execute("COMMIT")
            except BaseException:
                connections[TRAFFIC].close()
                raise
        return True

    def _is_gone(self, holder: str) -> bool:
        """Whether the process that the lease names ran on this host and does not run any more (or is ourselves)."""
        host, _, pid = holder.rpartition(" pid ")
        if host != self._host or not pid.isdigit():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return int(pid) == os.getpid()

    def renew(self) -> None:
        """Say that we live. Raises FencedOut when somebody else took over."""
        self._try_lock()
        if self._beat_file is not None:
            if self._read()[0] != self.token:
                raise FencedOut
            self._beat()
            # For those who look at the table; whoever holds the write lock may make this wait for the next time.
            with suppress(OperationalError), cursor(FACTS) as c:
                c.execute("PRAGMA busy_timeout = 100")
                c.execute(RENEW, (time.time(), self.token))
            return
        with cursor(FACTS) as c:
            c.execute(RENEW, (time.time(), self.token))
            if c.rowcount != 1:
                raise FencedOut

    def _beat(self) -> None:
        if self._beat_file is not None:
            self._beat_file.write_text(f"{self.token} {time.time()}\n")

    def release(self) -> None:
        """Leave the seat to whoever comes next, at once."""
        try:
            with cursor(FACTS) as c:
                c.execute(RELEASE, (self.token,))
        finally:
            self._unlock()

    def step_down(self) -> None:
        self._unlock()
        self._seen = None

    def _read(self) -> tuple[int, str, float]:
        with cursor(FACTS) as c:
            c.execute(READ)
            row: Any = c.fetchone()
        stamp = float(row[2])
        if stamp and self._beat_file is not None and self._beat_file.exists():
            # Any change of it is a sign of life; what it says does not matter.
            stamp = self._beat_file.stat().st_mtime_ns / 1e9
        return int(row[0]), str(row[1]), stamp

    def _try_lock(self) -> bool:
        if self._lock is not None:
            return True
        handle = self._lock_file.open("a")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            return False
        self._lock = handle
        return True

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "-"
