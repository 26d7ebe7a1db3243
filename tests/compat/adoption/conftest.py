"""One control plane and one real router for all cells of the matrix; each cell has engines of its own."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.adoption.fleet import Engines, Operator
from tests.controlplane.routers.real import RealRouter
from tests.support.ports import free_port
from tests.workers.sdk.plane import RealPlane, real_plane


@pytest.fixture(scope="session")
def plane(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    """Probes loopback, as any fleet is probed."""
    if importlib.util.find_spec("sglang") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("these tests are about SGLang, which is not installed")
    directory = tmp_path_factory.mktemp("adoption")
    knobs = {"PDCP_PROBE_NETWORKS": "127.0.0.0/8", "PDCP_PROBE_INTERVAL_SECONDS": 0.5}
    with real_plane(sqlite_template, directory, **knobs) as started:
        yield started
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def token(plane: RealPlane) -> str:
    """Of the engines: what a plugin, a relay or a worker needs."""
    return plane.token("engines", "register", "resolve", "report", "engine-info")


@pytest.fixture(scope="session")
def operator(plane: RealPlane) -> Iterator[Operator]:
    made = Operator(plane, plane.token("operator", "read", "operate"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRouter]:
    started = RealRouter(tmp_path_factory.mktemp("router") / "router.log").start()
    yield started
    started.close()


@pytest.fixture(scope="module")
def make_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Engines]]:
    """`make_engines("a", PD_MODE="report")` -> Engines that were launched, and end with the file."""
    made: list[Engines] = []

    def make(name: str, *, kv_port: int | None = None, **env: object) -> Engines:
        log = tmp_path_factory.mktemp(name) / "engines.log"
        made.append(Engines(log, kv_port=kv_port or free_port(), **env).launch())
        return made[-1]

    yield make
    for one in made:
        one.stop()
        print(f"--- {one.log_path.parent.name} ---\n{one.log()[-6000:]}")
