"""What all commands for operators share: exit codes, JSON or text, tables, and sentences instead of tracebacks."""

from __future__ import annotations

import datetime
import json
import logging
import os
import pwd
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, InterfaceError, ProgrammingError, connections

from controlplane.databases import FACTS
from controlplane.domain.errors import Refused

OK, NOTHING, USAGE, NO_DATABASE = 0, 1, 2, 3

STYLES = {
    "serving": "green",
    "flushing": "yellow",
    "incomplete": "yellow",
    "unproven": "yellow",
    "cordoned": "cyan",
    "draining": "cyan",
    "retired": "dim",
    "200": "green",
    "503": "red",
}


class OperatorCommand(BaseCommand):
    """Subclasses implement `operate` and return an exit code; refusals and a missing database are dealt with here."""

    requires_system_checks: list[str] = []

    def add_json(self, parser: CommandParser, *, what: str = "one JSON document") -> None:
        parser.add_argument("--json", action="store_true", help=f"print {what} instead of text")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(self._code(options))

    def operate(self, options: dict[str, Any]) -> int:
        raise NotImplementedError

    def _code(self, options: dict[str, Any]) -> int:
        # Its warnings repeat, with a delay, what is said in one sentence below.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        try:
            code = self.operate(options)
            self.stdout.flush()
        except Refused as refused:
            self.complain(refused.sentence)
            code = USAGE if refused.code.startswith(("malformed", "host_")) else NOTHING
        except (DatabaseError, InterfaceError) as problem:
            self.complain(database_sentence(problem))
            code = NO_DATABASE
        except UnicodeEncodeError:
            # What a shell hands on that is no UTF-8; no database takes it.
            self.complain("what was given must be text: some of it is no character")
            code = USAGE
        except BrokenPipeError:
            # Whoever read has read enough (`| head`); Python must not try to flush once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = OK
        finally:
            _let_go()
        return code

    def complain(self, sentence: str) -> None:
        self.stderr.write(f"error: {printable(sentence)}")

    def say(self, sentence: str = "") -> None:
        self.stdout.write(printable(sentence))

    def print_json(self, value: Any) -> None:
        self.stdout.write(json.dumps(value, indent=2 if self.on_terminal else None, ensure_ascii=False))

    @property
    def on_terminal(self) -> bool:
        return bool(self.stdout.isatty())

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Drawn by rich on a terminal (which knows NO_COLOR); elsewhere aligned text that `awk` can read."""
        cells = [[printable(cell) for cell in row] for row in rows]
        if self.on_terminal:
            self._draw(columns, cells)
            return
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        for line in [list(columns), *cells]:
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.stdout.write("  ".join(padded).rstrip())

    def _draw(self, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="")
        for position, column in enumerate(columns):
            # The last one is a sentence, which may break; names and numbers may not.
            drawn.add_column(column, no_wrap=position < len(columns) - 1)
        for line in cells:
            drawn.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in line))
        Console(file=sys.stdout, highlight=False).print(drawn)


def printable(text: str) -> str:
    """Text as it may reach a terminal: names, tokens and reasons that others chose cannot move its cursor.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def moment(at: float | None) -> str | None:
    """RFC 3339 in UTC, for machines."""
    if at is None:
        return None
    stamp = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(at: float) -> str:
    """Date and time where the reader sits."""
    return f"{datetime.datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def os_user() -> str:
    """Who sits at the terminal: behind sudo, the one who called it."""
    sudo = os.environ.get("SUDO_USER", "")
    if sudo and os.getuid() == 0:
        return sudo
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def database_sentence(problem: Exception) -> str:
    """Which database, and what to do; never its password."""
    settings: Mapping[str, Any] = connections[FACTS].settings_dict
    where = str(settings["NAME"])
    if settings.get("HOST"):
        where = f"{where} on {settings['HOST']}:{settings.get('PORT') or 5432}"
    if isinstance(problem, ProgrammingError) or "no such table" in str(problem) or "no such column" in str(problem):
        return f"the database {where} is not up to date: run `manage.py migrate_all` (or check DATABASE_URL, PDCP_DATA_DIR)"
    state = getattr(problem.__cause__, "sqlstate", None)
    if state == "57014" or "locked" in str(problem):
        return f"the database {where} did not answer in time; try again"
    return f"cannot reach the database {where} (DATABASE_URL): {_first_line(problem)}"


def _first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0][:200] if lines else type(problem).__name__


def _let_go() -> None:
    connections.close_all()
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "postgresql":
            connection.close_pool()  # type: ignore[attr-defined]
