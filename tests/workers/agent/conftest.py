"""One bootstrap process for a file of pairs: each pair has a launch of its own there, with an instance of its own where named."""

import pytest


@pytest.fixture
def directory(sqlite_backend, make_bootstrap):
    return make_bootstrap(sqlite_backend).start()
