"""`manage.py migrate_all`: bring every database up to date, facts first, then traffic."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connections

from controlplane import databases


class Command(BaseCommand):
    help = "Migrate every database of the control plane."

    def handle(self, *args: Any, verbosity: int = 1, **options: Any) -> None:
        for alias in databases.writers():
            try:
                self._migrate(alias, verbosity)
            except OperationalError as problem:
                raise CommandError(
                    f"the database cannot be used ({str(problem).strip()}); check DATABASE_URL, or PDCP_DATA_DIR "
                    "where that is not set."
                ) from None

    def _migrate(self, alias: str, verbosity: int) -> None:
        connection = connections[alias]
        if connection.vendor == "postgresql":
            # Building an index may take longer than any request is allowed to.
            with connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = 0")
        call_command("migrate", database=alias, interactive=False, verbosity=verbosity)
