"""Moves SQLite's write-ahead log into the file, on a connection of its own, beside the commits."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from django.db import connections

PASSIVE_ABOVE = 2 * 2**20
RESTART_ABOVE = 16 * 2**20
EVERY_SECONDS = 0.5


class Checkpointer:
    """A thread for all SQLite files of `aliases`; nothing to do on PostgreSQL."""

    def __init__(self, aliases: list[str]) -> None:
        names = [str(connections[a].settings_dict["NAME"]) for a in aliases if connections[a].vendor == "sqlite"]
        self._files = sorted(set(names))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)

    def start(self) -> None:
        if self._files:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            for file in self._files:
                try:
                    _checkpoint(Path(file))
                except sqlite3.OperationalError:
                    # Busy: the next round comes soon.
                    continue


def _checkpoint(file: Path) -> None:
    wal = file.with_name(f"{file.name}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size < PASSIVE_ABOVE:
        return
    connection = sqlite3.connect(file, timeout=0.2, isolation_level=None)
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if size > RESTART_ABOVE:
            # Writers that never pause would let the log grow for ever. What is left to copy now is little, so they
            # wait a moment and begin again at its start.
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    finally:
        connection.close()
