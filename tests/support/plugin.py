"""Fixtures for everybody: a migrated database of either kind, and bootstrap processes on it.

Migrations run once a session, into a template that every test copies.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.forking import Zygote
from tests.support.postgres import PostgresServer, Unavailable, running_server
from tests.support.processes import Bootstrap, clean_env, die_with_parent, manage


@dataclass(frozen=True, slots=True)
class Backend:
    """A migrated, empty database and the data directory that goes with it."""

    kind: str
    data_dir: Path
    database_url: str | None = None

    @property
    def env(self) -> dict[str, str]:
        """The environment in which any process of ours works on this database."""
        return clean_env(PDCP_DATA_DIR=self.data_dir, DATABASE_URL=self.database_url)


ON_A_DATABASE = {"backend", "postgres_template", "sqlite_template"}


@contextmanager
def forking() -> Iterator[Zygote]:
    """Meanwhile our commands are forked where they can be (forking.py), not executed. Linux only."""
    with tempfile.TemporaryDirectory(prefix="pd-zygote-") as data:
        env = clean_env(PDCP_DATA_DIR=data, PDCP_ENV_FILE="/dev/null")
        before, processes.zygote = processes.zygote, Zygote(env, die_with_parent(signal.SIGKILL))
        try:
            yield processes.zygote
        finally:
            processes.zygote.close()
            processes.zygote = before


def measures(session: pytest.Session) -> bool:
    """Whether it takes the real thing: processes that are executed, and disks."""
    return any(item.get_closest_marker(name) for item in session.items for name in ("soak", "bench"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """The zygote is there before any test that may want it: a test that counts children must not see it come."""
    wanted = any(ON_A_DATABASE & set(getattr(item, "fixturenames", ())) for item in session.items)
    if sys.platform == "linux" and wanted and not measures(session) and not session.config.option.collectonly:
        begun = forking()
        begun.__enter__()
        session.config.add_cleanup(lambda: begun.__exit__(None, None, None))


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    server = running_server(in_memory=not measures(request.session))
    try:
        started = server.__enter__()
    except Unavailable as why:
        # A green CI run that never met PostgreSQL would be a lie.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(why))
    yield started
    server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return migrated(Backend("sqlite", tmp_path_factory.mktemp("sqlite-template"))).data_dir


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    url = postgres_server.create_database()
    migrated(Backend("postgresql", tmp_path_factory.mktemp("postgres-template"), url))
    return url


def migrated(backend: Backend) -> Backend:
    done = manage("migrate_all", env=backend.env)
    assert done.returncode == 0, f"manage.py migrate_all failed:\n{done.stdout}{done.stderr}"
    return backend


@pytest.fixture
def sqlite_backend(sqlite_template: Path, tmp_path: Path) -> Backend:
    data_dir = tmp_path / "data"
    shutil.copytree(sqlite_template, data_dir)
    return Backend("sqlite", data_dir)


@pytest.fixture
def postgresql_backend(postgres_server: PostgresServer, postgres_template: str, tmp_path: Path) -> Iterator[Backend]:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    url = postgres_server.create_database(template=postgres_template)
    yield Backend("postgresql", data_dir, url)
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """The test runs twice, once on each kind of database."""
    return request.getfixturevalue(f"{request.param}_backend")


@pytest.fixture
def make_bootstrap(tmp_path: Path) -> Iterator[Callable[..., Bootstrap]]:
    """`make_bootstrap(backend, PDCP_X=…)` -> a Bootstrap, not started; it ends with the test.

    Use it directly for several processes on one database; `bootstrap` is the usual single one.
    """
    made: list[Bootstrap] = []

    def make(on: Backend, *, kv_port: int | None = None, engine_port: int | None = None, **knobs: object) -> Bootstrap:
        log = tmp_path / f"bootstrap-{len(made) + 1}.log"
        made.append(Bootstrap(on.env, log=log, kv_port=kv_port, engine_port=engine_port, **knobs))
        return made[-1]

    yield make
    for process in made:
        if process.started:
            process.kill9()
            # pytest shows it under "Captured stdout teardown" of a test that failed.
            print(f"--- {process.log_path.name} ---\n{process.log()[-20000:]}")


@pytest.fixture
def bootstrap(backend: Backend, make_bootstrap: Callable[..., Bootstrap]) -> Bootstrap:
    """A serving bootstrap process on an empty database of either kind."""
    return make_bootstrap(backend).start()
