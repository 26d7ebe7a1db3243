"""`manage.py migrate_all`: bring every database up to date, facts first, then traffic."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from controlplane import databases

ONE_AT_A_TIME = 0x70_64_63_71
"""Any number, the same for all who migrate; commands.drains has the one below."""


class Command(BaseCommand):
    help = (
        "Migrate every database of the control plane. Of several that are run at once, one does it and the others wait."
    )

    def handle(self, *args: Any, verbosity: int = 1, **options: Any) -> None:
        for alias in databases.writers():
            try:
                with _alone(connections[alias]):
                    call_command("migrate", database=alias, interactive=False, verbosity=verbosity)
            except (OperationalError, OSError) as problem:
                raise CommandError(
                    f"the database cannot be used ({str(problem).strip()}); check DATABASE_URL, or PDCP_DATA_DIR "
                    "where that is not set."
                ) from None


@contextmanager
def _alone(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Every replica of a deployment migrates before it starts: without this all but one of them would fail on tables that
    another one is just making."""
    if connection.vendor != "postgresql":
        directory = os.open(Path(connection.settings_dict["NAME"]).parent, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)
        return
    with connection.cursor() as cursor:
        # Building an index may take longer than any request is allowed to, and so may whoever is before us.
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [ONE_AT_A_TIME])
        # Whoever serves is not to wait behind a table that we cannot have.
        cursor.execute("RESET lock_timeout")
    yield
    # After a failure the process ends, and the lock with it.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [ONE_AT_A_TIME])
