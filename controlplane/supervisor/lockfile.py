"""One `manage.py up` per data directory: two of them would share a database, a beat schedule and a Redis."""

import fcntl
import os
import time
from pathlib import Path

# What a killed supervisor leaves behind takes so long to end (watchdog.py), and holds the lock until then.
PATIENCE_SECONDS = 10.0


class DirectoryInUse(Exception):
    """A sentence for the operator."""


def take(directory: Path) -> int:
    """The descriptor that holds the lock; the lock ends when all who have the descriptor have ended."""
    path = directory / "up.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _locked(descriptor):
        holder = _holder(descriptor)
        if _alive(holder) or time.monotonic() > deadline:
            os.close(descriptor)
            raise DirectoryInUse(
                f"another `manage.py up` (pid {holder or 'unknown'}) uses {directory}; "
                "stop it, or set PDCP_DATA_DIR to another directory."
            )
        time.sleep(0.05)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0).strip()
    return int(text) if text.isdigit() else None


def _alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
