"""One bootstrap process for the timelines that leave it alone, and an instance of its own for each of them."""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.plugin import Backend
from tests.support.processes import Bootstrap
from tests.timelines.actors import Cluster, Launch, Place, place_of

# A peer that is there answers at once; so much only a busy machine can take.
QUICK_PROBES = {"PDCP_PROBE_INTERVAL_SECONDS": 0.3, "PDCP_PROBE_TIMEOUT_SECONDS": 5}
BYSTANDERS = 24

_names = (f"timeline-{n}" for n in count(1))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def shared(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bootstrap, Path]]:
    directory = tmp_path_factory.mktemp("timelines")
    data_dir = directory / "data"
    shutil.copytree(sqlite_template, data_dir)
    bootstrap = Bootstrap(Backend("sqlite", data_dir).env, log=directory / "log", **QUICK_PROBES).start()
    # Healthy neighbours: without them, the deaths of a timeline would look like a fault of ours.
    neighbours = Cluster()
    with place_of(bootstrap, "bystander", data_dir) as place:
        Launch(place, neighbours, tp=BYSTANDERS).put()
    yield bootstrap, data_dir
    neighbours.close()
    bootstrap.kill9()


@pytest.fixture
def place(shared: tuple[Bootstrap, Path]) -> Iterator[Place]:
    bootstrap, data_dir = shared
    with place_of(bootstrap, next(_names), data_dir) as place:
        yield place
    print(f"--- bootstrap ---\n{bootstrap.log()[-5000:]}")


@pytest.fixture
def unswept(sqlite_backend: Backend, make_bootstrap: Callable[..., Bootstrap]) -> Iterator[Place]:
    """A place of its own where nobody is asked but by a decision: what no PUT asks about stays unnoticed."""
    bootstrap = make_bootstrap(sqlite_backend, **QUICK_PROBES | {"PDCP_PROBE_INTERVAL_SECONDS": 0}).start()
    with place_of(bootstrap, "unswept", sqlite_backend.data_dir) as place:
        yield place
