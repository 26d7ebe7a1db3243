"""People of each role, and machines, in front of the API on a backend of its own."""

import pytest

from tests.controlplane.api.client import Api, person
from tests.controlplane.commands.on_backend import on_backend

__all__ = ["on_backend"]


@pytest.fixture
def viewer(on_backend) -> Api:
    return Api(user=person("viewer"))


@pytest.fixture
def operator(on_backend) -> Api:
    return Api(user=person("operator"))


@pytest.fixture
def admin(on_backend) -> Api:
    return Api(user=person("admin"))


@pytest.fixture
def stranger(on_backend) -> Api:
    return Api()
