"""A control plane that goes away and comes back."""

import pytest

from tests.workers.outage.scene import Outage
from tests.workers.sdk.plane import real_plane


@pytest.fixture
def outage(sqlite_template, tmp_path):
    with real_plane(sqlite_template, tmp_path) as plane:
        yield Outage(plane)
