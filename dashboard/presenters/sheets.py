"""A list as CSV: what is in the file, and in its last line what is not."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def sheet(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, more: str = "") -> str:
    r"""`more`: what is left out, in a sentence; empty when nothing is.

    >>> sheet(["name"], [["=1+1"], [7]])
    "name\r\n'=1+1\r\n7\r\n"
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_harmless(cell) for cell in row])
    if more:
        writer.writerow([f"({more})"])
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """Tables take a text that begins like a formula for one, and workers name their sessions as they like."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell
