"""Bootstrap processes that several tests share, and a tenant of one's own on them."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.plugin import Backend
from tests.support.processes import Bootstrap
from tests.wire.client import Client
from tests.wire.operators import Operator, seed_instances

_numbers = itertools.count(1)


@dataclass(slots=True)
class Server:
    """A serving process and its database."""

    process: Bootstrap
    backend: Backend
    directory: Path
    _operator: Operator | None = None

    @property
    def operator(self) -> Operator:
        """Somebody who adds and retires instances meanwhile."""
        if self._operator is None:
            self._operator = Operator(self.backend, log=self.directory / "operator.log")
        return self._operator

    def close(self) -> None:
        if self._operator is not None:
            self._operator.close()
        if self.process.started:
            self.process.kill9()

    def kv(self, instance: str | None = None, **more: object) -> Client:
        return self._client(self.process.kv_port, instance, **more)

    def engine(self, instance: str | None = None, **more: object) -> Client:
        return self._client(self.process.engine_port, instance, **more)

    def _client(self, port: int, instance: str | None, **more: object) -> Client:
        return Client(port, headers={"X-PD-Instance": instance} if instance else None, **more)  # type: ignore[arg-type]


@contextmanager
def serving(template: Path, *instances: str, **knobs: object) -> Iterator[Server]:
    """A process on an empty database (plus `instances`), on ports of its own."""
    with tempfile.TemporaryDirectory(prefix="pd-wire-") as directory:
        data = Path(directory) / "data"
        shutil.copytree(template, data)
        backend = Backend("sqlite", data)
        seed_instances(backend, *instances)
        process = Bootstrap(backend.env, log=Path(directory) / "log", **knobs)
        started = Server(process, backend, Path(directory))
        try:
            process.start()
            yield started
        finally:
            started.close()


@pytest.fixture(scope="module")
def server(sqlite_template: Path) -> Iterator[Server]:
    """One process a module that probes nobody, so that launches complete at once."""
    with serving(sqlite_template, PDCP_PROBE_NETWORKS="none") as started:
        yield started


@pytest.fixture
def tenant() -> str:
    """A name that no other test uses."""
    return f"tenant-{next(_numbers)}"


@pytest.fixture
def serve(sqlite_template: Path) -> Iterator[Callable[..., Server]]:
    """`serve("a", "b", PDCP_X=…)` -> a Server of this test alone."""
    with ExitStack() as stack:
        yield lambda *instances, **knobs: stack.enter_context(serving(sqlite_template, *instances, **knobs))
