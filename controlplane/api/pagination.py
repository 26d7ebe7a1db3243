"""Cursors: opaque, and stable while rows are added, since they say after which row to go on and not how many to skip."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from .errors import Malformed
from .problems import Fault

Row = TypeVar("Row")
Key = str | int
DEFAULT_LIMIT, MOST = 100, 1000


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Some rows, and the cursor after the last of them; None when it was the last page."""

    items: list[Row]
    next: str | None


def sealed(order: str, key: Key) -> str:
    """
    >>> opened("name", sealed("name", "prefill-a"), str)
    'prefill-a'
    """
    return base64.urlsafe_b64encode(msgspec.json.encode([order, key])).decode().rstrip("=")


def opened(order: str, cursor: str | None, kind: type[Any]) -> Any:
    """The key within a cursor of this order; None for none. Refuses cursors of other lists, and whatever is no cursor."""
    if not cursor:
        return None
    key = None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        said = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=tuple[str, Key])
        key = said[1] if said[0] == order else None
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        pass
    if (
        type(key) is not kind
        or (isinstance(key, int) and abs(key) >= 2**63)
        or (isinstance(key, str) and "\x00" in key)
    ):
        raise Malformed([Fault("?cursor", "invalid", "this is not a cursor that this list gave out")])
    return key


def page(rows: Iterable[Row], *, order: str, key: Callable[[Row], Key], limit: int) -> Page[Row]:
    """The first `limit` of `rows`, which start after the cursor and hold one more than wanted if there is one."""
    found = list(rows)
    more = len(found) > limit
    items = found[:limit]
    return Page(items, sealed(order, key(items[-1])) if more and items else None)


def by_name(rows: Iterable[Row], *, name: Callable[[Row], str], cursor: str | None, limit: int) -> Page[Row]:
    """A page of rows that are all in memory, by name."""
    after = opened("name", cursor, str)
    ordered = sorted((row for row in rows if after is None or name(row) > after), key=name)
    return page(ordered, order="name", key=name, limit=limit)
