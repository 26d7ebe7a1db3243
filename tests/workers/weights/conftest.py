"""A real bootstrap process for a file, which probes sessions as in production."""

import itertools

import pytest

from tests.support.plugin import Backend
from tests.support.processes import Bootstrap
from tests.workers.weights.seeding import bench
from workers.sdk import ControlPlane

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def directory(sqlite_template, tmp_path_factory):
    import shutil

    folder = tmp_path_factory.mktemp("directory")
    shutil.copytree(sqlite_template, folder / "data")
    bootstrap = Bootstrap(Backend("sqlite", folder / "data").env, log=folder / "bootstrap.log")
    bootstrap.start()
    yield bootstrap
    bootstrap.kill9()
    print(f"--- bootstrap ---\n{bootstrap.log()[-5000:]}")


@pytest.fixture
def plane(directory) -> ControlPlane:
    return ControlPlane.at(f"127.0.0.1:{directory.kv_port}", engine=f"127.0.0.1:{directory.engine_port}")


@pytest.fixture
def name() -> str:
    """Of an instance that no other test uses."""
    return f"seed-{next(_numbers)}"


@pytest.fixture
def here(plane, request):
    """Seeds and pulls of this process: `zmq`, or the backend that a test names."""
    with bench(plane, getattr(request, "param", "zmq")) as made:
        yield made
