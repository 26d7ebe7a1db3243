"""Fixtures: a fleet with engines that really listen, and a real router."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from controlplane.databases import READER
from tests.controlplane.commands.on_backend import on_backend
from tests.controlplane.routers.fleet import Fleet
from tests.controlplane.routers.real import RealRouter

__all__ = ["on_backend"]


@pytest.fixture
def fleet(on_backend) -> Iterator[Fleet]:
    made = Fleet()
    yield made
    made.close()


@pytest.fixture(scope="session")
def _shared_router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRouter]:
    router = RealRouter(tmp_path_factory.mktemp("router") / "router.log").start()
    yield router
    router.close()


@pytest.fixture
def router(_shared_router: RealRouter) -> RealRouter:
    """A router that holds nobody. It takes seconds to start, so that tests share one, whatever they did to it."""
    _shared_router.empty()
    return _shared_router


@pytest.fixture
def start_router(tmp_path: Path) -> Iterator[Callable[..., RealRouter]]:
    """`start_router("--api-key", "r")` -> a RealRouter of this test alone."""
    started: list[RealRouter] = []

    def start(*more: str) -> RealRouter:
        started.append(RealRouter(tmp_path / f"router-{len(started)}.log", *more))
        return started[-1].start()

    yield start
    for router in started:
        router.close()


@pytest.fixture
def queries_of_reader(on_backend):
    """`with queries_of_reader(2): …` reads with so many SQL queries."""

    @contextmanager
    def exactly(number: int) -> Iterator[None]:
        with CaptureQueriesContext(connections[READER]) as captured:
            yield
        said = [query["sql"] for query in captured.captured_queries if query["sql"].startswith("SELECT")]
        assert len(said) == number, said

    return exactly
