"""Fixtures of this directory: real ranks to kill, and a control plane whose every face is watched."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cases.ranks import Ranks
from tests.detection.nursery import Nursery
from tests.support.web import Web


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    if importlib.util.find_spec("sglang") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("real ranks need SGLang (see CONTRIBUTING)")
    opened = Nursery(tmp_path_factory.mktemp("nursery") / "log")
    yield opened
    opened.close()


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    listening = Ranks()
    yield listening
    listening.close()


@pytest.fixture
def make_web(tmp_path: Path) -> Iterator[Callable[..., Web]]:
    """`make_web(env)` -> a started web process in that environment; it ends with the test."""
    made: list[Web] = []

    def make(env: dict[str, str]) -> Web:
        made.append(Web(env, log=tmp_path / f"web-{len(made) + 1}.log"))
        return made[-1].start()

    yield make
    for web in made:
        web.kill9()
        print(f"--- {web.log_path.name} ---\n{web.log()[-5000:]}")
