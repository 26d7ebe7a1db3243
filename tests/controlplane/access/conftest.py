"""Fixtures of this directory: databases of either kind, people on them, and doors that are guarded."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from tests.controlplane.commands.on_backend import on_backend
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap

__all__ = ["on_backend"]


@pytest.fixture
def person() -> Callable[..., User]:
    """`person("otto", "operator")` -> an account in that group; without one, in none."""

    def make(name: str, *groups: str, **facts: Any) -> User:
        user = User.objects.create_user(name, password="correct horse battery", **facts)
        user.groups.set(Group.objects.filter(name__in=groups))
        return user

    return make


@pytest.fixture
def ann(on_backend: Backend) -> User:
    """An administrator, on a database where commits are real."""
    return User.objects.create_superuser("ann", password="correct horse battery")


@pytest.fixture
def guarded(on_backend: Backend, make_bootstrap: Callable[..., Bootstrap]) -> Iterator[Callable[..., Bootstrap]]:
    """`guarded(PDCP_REGISTER_BY="token")` -> a serving bootstrap process that probes nobody."""
    yield lambda **knobs: make_bootstrap(on_backend, **{"PDCP_PROBE_NETWORKS": "none", **knobs}).start()
