"""Django in the test process itself."""

from collections.abc import Iterator

import pytest

import tests.support.inside  # noqa: F401


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
