"""A cursor for long-lived threads: whatever broke the connection, the next call gets a new one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import InterfaceError, OperationalError, connections


@contextmanager
def cursor(alias: str) -> Iterator[Any]:
    """One thread, one connection, kept between calls unless it failed."""
    connection = connections[alias]
    try:
        with connection.cursor() as opened:
            yield opened
    except (OperationalError, InterfaceError):
        connection.close()
        raise
