"""Fixtures of the public bug reports: servers, tenants, and ranks that really listen."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cases.ranks import Ranks
from tests.controlplane.commands.on_backend import on_backend
from tests.wire.conftest import Server, serve, server, serving, tenant

__all__ = ["on_backend", "serve", "server", "tenant"]

# A peer that is there answers at once; so much only a busy machine can take.
PROBING = {"PDCP_PROBE_INTERVAL_SECONDS": 0.3, "PDCP_PROBE_TIMEOUT_SECONDS": 5}


@pytest.fixture
def ranks() -> Iterator[Ranks]:
    listening = Ranks()
    yield listening
    listening.close()


@pytest.fixture(scope="module")
def watching(sqlite_template: Path) -> Iterator[Server]:
    """One process a module that probes what registers, often."""
    with serving(sqlite_template, **PROBING) as started:
        yield started


@pytest.fixture
def watch(serve: Callable[..., Server]) -> Callable[..., Server]:
    """`watch("a", PDCP_X=…)` -> a Server of this test alone that probes."""
    return lambda *instances, **knobs: serve(*instances, **{**PROBING, **knobs})
