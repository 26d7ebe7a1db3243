"""The servers that are compared: SGLang's two, and ours on SQLite or PostgreSQL."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from tests.support.plugin import Backend, migrated
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer, Unavailable, running_server
from tests.support.processes import Bootstrap, Child, clean_env

THEIRS, SQLITE, POSTGRES = "SGLang", "SQLite", "PostgreSQL"


class Server(Protocol):
    """One running pair of doors."""

    name: str
    tenants: bool
    """Whether it knows instances by path."""

    def url(self, door: str) -> str: ...

    def processes(self, door: str) -> list[psutil.Process]: ...

    def stop(self) -> None: ...


class Theirs:
    """SGLang's KV and engine-info servers, each a process, forked fresh."""

    name, tenants = THEIRS, False

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._doors = {door: nursery.give_birth(door) for door in ("kv", "engine")}

    def url(self, door: str) -> str:
        return f"http://127.0.0.1:{self._doors[door][1]}"

    def processes(self, door: str) -> list[psutil.Process]:
        return [psutil.Process(self._doors[door][0])]

    def stop(self) -> None:
        for pid, _ in self._doors.values():
            self._nursery.end(pid)


def theirs_alone(log: Path) -> Child:
    """SGLang's KV server in a process that was not forked, for its memory."""
    command = [sys.executable, "-m", "tests.bench.real_server", "kv", str(free_port())]
    child = Child(command, env=clean_env(), log=log)
    child.wait_for_line("^ready", timeout=90)
    return child


class Nursery:
    """The process that has imported SGLang and forks its servers."""

    def __init__(self, log: Path) -> None:
        self._child = Child([sys.executable, "-m", "tests.bench.real_server"], env=clean_env(), log=log, stdin=True)
        self._child.wait_for_line("^waiting$", timeout=90)

    def give_birth(self, door: str) -> tuple[int, int]:
        port, heard = free_port(), len(self._child.lines)
        self._child.say(f"{door} {port}")
        return int(self._child.wait_for_line(r"^ready (\d+)$", timeout=30, after=heard)[1]), port

    def end(self, pid: int) -> None:
        heard = len(self._child.lines)
        self._child.say(f"stop {pid}")
        self._child.wait_for_line(f"^stopped {pid}$", timeout=10, after=heard)

    def close(self) -> None:
        for process in psutil.Process(self._child.pid).children():
            self.end(process.pid)
        self._child.kill9()


class Ours:
    """`manage.py bootstrap` on a fresh database."""

    tenants = True

    def __init__(self, backend: Backend, log: Path, *, database: psutil.Process | None, **knobs: object) -> None:
        self.name = POSTGRES if backend.database_url else SQLITE
        self.backend, self._database = backend, database
        self.bootstrap = Bootstrap(backend.env, log=log, **knobs).start()

    def url(self, door: str) -> str:
        return self.bootstrap.kv_url if door == "kv" else self.bootstrap.engine_url

    def processes(self, door: str) -> list[psutil.Process]:
        """The bootstrap process first; with PostgreSQL its server processes too: durability is paid there."""
        own = [psutil.Process(self.bootstrap.pid)]
        return own + ([self._database, *self._database.children()] if self._database else [])

    def stop(self) -> None:
        self.bootstrap.terminate()


class Stable:
    """Starts servers, each on data of its own, and ends all that is left."""

    def __init__(self, directory: Path, postgres: PostgresServer | None, database: psutil.Process | None) -> None:
        self._directory, self._postgres, self._database = directory, postgres, database
        self.nursery = Nursery(directory / "real_server.log")
        self._running: list[Server] = []
        self._count = 0
        self._template = migrated(Backend("sqlite", self._new_directory()))
        self._postgres_template = self._migrated_postgres() if postgres else None

    @property
    def has_postgres(self) -> bool:
        return self._postgres is not None

    def start(self, name: str, **knobs: object) -> Server:
        """A fresh server by its name; `knobs` are environment variables of ours."""
        server: Server
        if name == THEIRS:
            server = Theirs(self.nursery)
        else:
            backend = self._backend(name)
            database = self._database if name == POSTGRES else None
            server = Ours(backend, backend.data_dir / "bootstrap.log", database=database, **knobs)
        self._running.append(server)
        return server

    def stop(self, server: Server) -> None:
        self._running.remove(server)
        server.stop()

    def close(self) -> None:
        for server in list(self._running):
            self.stop(server)
        self.nursery.close()

    def _backend(self, name: str) -> Backend:
        directory = self._new_directory()
        if name == POSTGRES:
            assert self._postgres and self._postgres_template
            url = self._postgres.create_database(template=self._postgres_template)
            return Backend("postgresql", directory, url)
        shutil.copytree(self._template.data_dir, directory, dirs_exist_ok=True)
        return Backend("sqlite", directory)

    def _migrated_postgres(self) -> str:
        assert self._postgres
        url = self._postgres.create_database()
        migrated(Backend("postgresql", self._new_directory(), url))
        return url

    def _new_directory(self) -> Path:
        self._count += 1
        directory = self._directory / f"data-{self._count}"
        directory.mkdir()
        return directory


@contextmanager
def stable(*, postgres: bool) -> Iterator[Stable]:
    """Everything that a run needs; without a PostgreSQL its cases are left out, and the report says so."""
    with tempfile.TemporaryDirectory(prefix="pdcp-bench-") as directory:
        server = running_server() if postgres else None
        try:
            started = server.__enter__() if server else None
        except Unavailable as why:
            print(f"without PostgreSQL: {why}", file=sys.stderr)
            server = started = None
        everything = Stable(Path(directory), started, _postmaster() if started else None)
        try:
            yield everything
        finally:
            everything.close()
            if server:
                server.__exit__(None, None, None)


def _postmaster() -> psutil.Process | None:
    """The PostgreSQL that this process started; None for one that TEST_DATABASE_URL names."""
    children = psutil.Process().children()
    return next((child for child in children if child.name() in ("postgres", "postmaster")), None)


def answer(url: str, *, body: bytes | None = None, method: str = "GET", timeout: float = 5) -> tuple[int, bytes]:
    """One request; status 0 when nobody answers."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()
    except OSError:
        return 0, b""


def wait_for(url: str, *, body: bytes | None = None, method: str = "GET", within: float = 60) -> bytes:
    """Poll every 5 ms until the answer is 200; what it was."""
    end = time.monotonic() + within
    while True:
        status, said = answer(url, body=body, method=method)
        if status == 200:
            return said
        if time.monotonic() > end:
            raise TimeoutError(f"{url} answers {status} {said[:200]!r} after {within} s")
        time.sleep(0.005)
