"""People of each role in front of the pages, in the test process, on a backend of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest

import tests.support.inside  # noqa: F401  isort: skip
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.controlplane.commands.on_backend import on_backend

__all__ = ["Pages", "on_backend", "queries"]

_addresses = itertools.count(1)


class Pages:
    """A browser without scripts: `get` a page, or only some of its `parts`."""

    def __init__(self, role: str = "") -> None:
        # An address of its own: what is refused to one address is kept so many times a minute only.
        self.client = Client(SERVER_NAME="localhost", REMOTE_ADDR=f"10.9.7.{next(_addresses) % 250 + 1}")
        if role:
            user = User.objects.get_or_create(username=f"{role}-ann")[0]
            if role != "nobody":
                user.groups.add(Group.objects.get(name=role))
            self.client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])

    def get(self, path: str, *, parts: str | None = None, status: int = 200) -> str:
        headers = {} if parts is None else {"X-PDCP-Parts": parts}
        answer = self.client.get(path, headers=headers)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.content[:2000]!r}"
        return answer.content.decode()

    def text(self, path: str, *, parts: str | None = None, status: int = 200) -> str:
        """What a person reads there, in one line."""
        return text_of(self.get(path, parts=parts, status=status))


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "symbol"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.said.append(data)


def text_of(html: str) -> str:
    """
    >>> text_of("<p>one <b>two</b>\\n three</p>")
    'one two three'
    """
    reader = _Text()
    reader.feed(html)
    return " ".join(" ".join(reader.said).split())


@contextmanager
def queries() -> Iterator[list[str]]:
    """The SQL of the block, of all databases, without what opens and ends transactions."""
    found: list[str] = []
    caught = [CaptureQueriesContext(connections[alias]) for alias in connections]
    for one in caught:
        one.__enter__()
    try:
        yield found
    finally:
        for one in caught:
            one.__exit__(None, None, None)
        found += [
            query["sql"]
            for one in caught
            for query in one.captured_queries
            if not query["sql"].startswith(("BEGIN", "COMMIT", "ROLLBACK", "SET TRANSACTION", "SAVEPOINT", "RELEASE"))
        ]


@pytest.fixture
def viewer(on_backend) -> Pages:
    return Pages("viewer")


@pytest.fixture
def operator(on_backend) -> Pages:
    return Pages("operator")


@pytest.fixture
def admin(on_backend) -> Pages:
    return Pages("admin")


@pytest.fixture
def nobody(on_backend) -> Pages:
    """Signed in, and in no group."""
    return Pages("nobody")


@pytest.fixture
def stranger(on_backend) -> Pages:
    return Pages()
