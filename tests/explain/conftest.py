"""One control plane for all planted faults: they are planted beside each other, and must not be taken for one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.controlplane.routers.real import RealRouter
from tests.detection.conftest import nursery  # noqa: F401
from tests.explain.ground import Ground
from tests.supervisor.conftest import Up

TTL_SECONDS = 3
NEIGHBOURS = 8
"""So that three that fall at once are not most of those that answered: then nobody would be judged."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ExitStack() as stack:
        up = Up(tmp_path_factory.mktemp("ground") / "data", PDCP_ROOM_TTL_SECONDS=TTL_SECONDS)
        stack.callback(up.close)
        up.wait_ready()
        made = Ground(up, stack)
        for number in range(NEIGHBOURS):
            made.rank(f"neighbour-{number}")
        yield made
        print(f"--- manage.py up ---\n{up.output[-10000:]}")


@pytest.fixture(scope="module")
def routers(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealRouter, RealRouter]]:
    """Two real sglang-routers: one whose breakers open, one that will be killed."""
    logs = tmp_path_factory.mktemp("routers")
    breaking = ["--cb-failure-threshold", "2", "--cb-timeout-duration-secs", "120", "--disable-retries"]
    with ExitStack() as stack:
        made = [RealRouter(logs / "one.log", *breaking), RealRouter(logs / "two.log")]
        for router in made:
            stack.callback(router.close)
            router.start()
        yield made[0], made[1]
