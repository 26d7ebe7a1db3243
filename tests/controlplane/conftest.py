"""Django in the test process itself, on databases of its own that vanish with it."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

# Before anything imports models: whatever the shell has set must not lead a test to a real database.
for name in list(os.environ):
    if name.startswith("PDCP_") or name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "SECRET_KEY_FILE"):
        del os.environ[name]
_directory = tempfile.mkdtemp(prefix="pd-test-")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
os.environ.update(DJANGO_SETTINGS_MODULE="controlplane.settings", PDCP_DATA_DIR=_directory, PDCP_ENV_FILE="/dev/null")

import django  # noqa: E402

django.setup()


@pytest.fixture(scope="session")
def _migrated() -> None:
    from django.core.management import call_command

    call_command("migrate_all", verbosity=0)


@pytest.fixture
def database(_migrated: None) -> Iterator[None]:
    """Migrated SQLite databases; what the test writes is rolled back (so `reader` does not see it)."""
    from django.db import transaction

    with transaction.atomic("default"), transaction.atomic("traffic"):
        yield
        transaction.set_rollback(True, "default")
        transaction.set_rollback(True, "traffic")
