"""Reading with SQL of our own: rows of the reader's snapshot, and what people typed within a LIKE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connections

from controlplane.databases import READER


def read(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows."""
    with connections[READER].cursor() as cursor:
        cursor.execute(sql, list(values))
        return list(cursor.fetchall())


def escaped(text: str) -> str:
    """For a LIKE with ESCAPE '!'.

    >>> escaped("50%_!")
    '50!%!_!!'
    """
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return text
