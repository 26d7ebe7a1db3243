"""A PostgreSQL server of a test's own, to be crashed and started again; and a proxy that loses answers on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.support import postgres
from tests.support.plugin import Backend, migrated
from tests.support.ports import free_port
from tests.support.processes import Child, NotReady, clean_env


class OwnPostgres:
    """fsync is on. `restart` is `pg_ctl restart -m immediate`: no checkpoint, no farewell, recovery from the log."""

    def __init__(self, directory: Path) -> None:
        found = postgres._bin_dirs()
        if not found:
            raise postgres.Unavailable("these tests crash a PostgreSQL server: install Debian's `postgresql`")
        self._bin = found[0]
        self._directory = directory
        self._data = directory / "data"
        self._user = postgres._server_user()
        self._uid = self._user.pw_uid if self._user else None
        self.port = free_port()
        self.url = f"postgresql://pdcp@127.0.0.1:{self.port}/postgres"
        if self._uid is not None:
            os.chown(directory, self._uid, -1)
        command = [str(self._bin / "initdb"), "-D", str(self._data), "-U", "pdcp", "--auth=trust", "--no-sync"]
        command += ["--encoding=UTF8", "--locale=C"]
        subprocess.run(command, check=True, capture_output=True, user=self._uid, cwd="/", timeout=60)
        self.start()

    def start(self, *, within: float = 60) -> None:
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "64MB"}
        command = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        log = self._directory / "server-log"
        self._child = Child(command, env=clean_env(), log=log, user=self._uid, dies_by=signal.SIGQUIT)
        end = time.monotonic() + within
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=10).close()
                return
            except psycopg.OperationalError as why:
                if self._child.exit_code is not None or time.monotonic() > end:
                    raise NotReady(f"{why}\n{self._child.log()[-2000:]}") from None
                time.sleep(0.05)

    def crash(self) -> None:
        os.kill(self._child.pid, signal.SIGQUIT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(30)
        self._child.kill9()

    def restart(self, *, away: float = 0.0) -> None:
        self.crash()
        time.sleep(away)
        self.start()

    def run(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=30) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def backend(self, data_dir: Path, *, through: int | None = None) -> Backend:
        """Migrated and empty; `through`: the port of a proxy to speak through."""
        made = migrated(Backend("postgresql", data_dir, self.url))
        if through is None:
            return made
        parts = urlsplit(self.url)
        return Backend("postgresql", data_dir, urlunsplit(parts._replace(netloc=f"pdcp@127.0.0.1:{through}")))

    def close(self) -> None:
        if self._child.exit_code is None:
            self.crash()


class LosesAnswers:
    """A proxy in front of a server. Once armed, the first request that holds `words` reaches the server, but its answer
    is lost with the connection; then nobody gets through for `away` seconds."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.lost = threading.Event()
        self._server_port = server_port
        self._words: bytes | None = None
        self._away = 0.0
        self._closed_until = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._call(self._listen())

    def arm(self, words: bytes, *, away: float = 0.0) -> None:
        self._words, self._away = words, away

    def close(self) -> None:
        self._call(self._hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _hang_up(self) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if time.monotonic() < self._closed_until:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers |= {writer, server_writer}
        losing = [False]
        await asyncio.gather(
            self._requests(reader, server_writer, losing), self._answers(server_reader, writer, losing)
        )
        self._writers -= {writer, server_writer}

    async def _requests(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, losing: list[bool]) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if self._words is not None and self._words in data:
                    self._words, losing[0] = None, True
                to.write(data)
                await to.drain()
        to.close()

    async def _answers(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, losing: list[bool]) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if losing[0]:
                    self._closed_until = time.monotonic() + self._away
                    for writer in list(self._writers):
                        writer.transport.abort()
                    self.lost.set()
                    return
                to.write(data)
                await to.drain()
        to.close()
