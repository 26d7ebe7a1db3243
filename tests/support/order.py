"""Which files run when, under xdist: the first test process begins with the longest file, the second with the shortest.

So whole installations, browsers and engines mostly run beside tests that need nobody's time, not beside each other, and both
processes end together, with files of a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from pathlib import PurePosixPath
from typing import Any

import pytest

SECONDS = {
    "access": 0.5,
    "adoption": 15.0,
    "agent": 3.0,
    "api": 0.7,
    "architecture": 10.0,
    "browser": 6.0,
    "cases": 1.5,
    "compat": 5.0,
    "crash": 8.0,
    "demo": 5.0,
    "detection": 25.0,
    "live": 2.0,
    "management": 0.8,
    "outage": 25.0,
    "routers": 1.5,
    "sglang_plugin": 1.0,
    "supervisor": 5.0,
    "tasks": 2.0,
    "timelines": 2.5,
    "transfer": 0.7,
    "web": 2.0,
    "weights": 1.5,
    "wire": 0.5,
}
"""About how long a test of a folder takes; of others a fifth of one."""


def seconds(file: str, tests: int) -> float:
    """
    >>> seconds("tests/compat/adoption/test_plugin.py", 4)
    60.0
    """
    return tests * max((SECONDS.get(folder, 0.2) for folder in PurePosixPath(file).parts), default=0.2)


def longest_first(files: Mapping[str, Sized]) -> list[str]:
    return sorted(files, key=lambda file: (-seconds(file, len(files[file])), file))


def takes_the_longest(worker: str, workers: Iterable[str]) -> bool:
    """Every other test process, the first one among them, as they are named."""
    return sorted(workers).index(worker) % 2 == 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class BothEnds(LoadFileScheduling):
        ordered = False

        def _assign_work_unit(self, node: Any) -> None:
            if not self.ordered:
                self.ordered = True
                for file in longest_first(self.workqueue):
                    self.workqueue.move_to_end(file)
            if not takes_the_longest(node.gateway.id, (one.gateway.id for one in self.nodes)):
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    return BothEnds(config, log)
