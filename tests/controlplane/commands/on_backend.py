"""Django in the test process on a backend of its own, where what is committed stays and `reader` sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper

from controlplane import databases
from tests.support.plugin import Backend


@pytest.fixture
def on_backend(backend: Backend) -> Iterator[Backend]:
    """Both kinds of database, one after the other; commits are real."""
    with inside(backend):
        yield backend


@contextmanager
def inside(backend: Backend) -> Iterator[None]:
    """Django in the test process works on this backend meanwhile. Its SQLite syncs nothing: this process outlives no crash."""
    made = databases.from_url(backend.database_url or "", data_dir=backend.data_dir, synchronous="OFF")
    before = dict(connections.settings)
    _let_go()
    connections.settings.update(connections.configure_settings(made))
    try:
        yield
    finally:
        _let_go()
        connections.settings.update(before)


def _let_go() -> None:
    """The next use of an alias opens what the settings say then."""
    for alias in list(connections):
        connections[alias].close()
        del connections[alias]
    # By alias, whatever the database: a thread that outlived its test may have opened one for a database that is gone.
    pools = DatabaseWrapper._connection_pools
    while pools:
        pools.popitem()[1].close()
