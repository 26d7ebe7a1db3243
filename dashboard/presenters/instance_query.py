"""What the URL of an instance's page asks for: everything that a person chose there, so that a link says it all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from controlplane.domain.cells import SHOWS, Cell
from controlplane.domain.errors import Refused
from controlplane.domain.topology import MAX_SIZE, Slot

from .grid import Layout, read_layout
from .rank_table import read_cell, read_slot

TABS = ("ranks", "why", "launches", "rooms", "engine-info", "pairs", "events")
VIEWS = ("grid", "table")
PARAMETERS = ("tab", "view", "rows", "cols", "show", "dp", "launch", "state", "rank", "after", "before")
MOST_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """`given` is the query as it came, without what nobody here knows."""

    tab: str
    view: str
    layout: Layout
    show: str
    first_dp: int
    launch: int | None
    only: Cell | None
    slot: Slot | None
    after: str
    before: int | None
    given: Mapping[str, str]

    @staticmethod
    def read(query: Mapping[str, str]) -> Asked:
        """Raises Refused (malformed)."""
        given = {name: query[name] for name in PARAMETERS if query.get(name)}
        return Asked(
            _one_of("tab", given, TABS),
            _one_of("view", given, VIEWS),
            read_layout(given.get("rows", ""), given.get("cols", "")),
            _one_of("show", given, tuple(SHOWS)),
            _number("dp", given, MAX_SIZE) or 0,
            _number("launch", given, MOST_NUMBER),
            read_cell(given.get("state", "")),
            read_slot(given["rank"]) if "rank" in given else None,
            given.get("after", ""),
            _number("before", given, 2**63 - 1),
            given,
        )

    def url(self, **changes: object) -> str:
        """The same page with some of it chosen otherwise; blank takes a parameter out.

        >>> Asked.read({"tab": "ranks", "rank": "dp0.cp0.tp1.pp0", "x": "1"}).url(rank="", show="health")
        '?tab=ranks&show=health'
        """
        asked = {**self.given, **{name: str(value) for name, value in changes.items()}}
        kept = {name: asked[name] for name in PARAMETERS if asked.get(name)}
        return f"?{urlencode(kept)}"


def _one_of(name: str, given: Mapping[str, str], known: tuple[str, ...]) -> str:
    value = given.get(name, known[0])
    if value not in known:
        raise Refused(f"{name} is one of {', '.join(known)}, not {value[:60]!r}", code="malformed")
    return value


def _number(name: str, given: Mapping[str, str], most: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= most):
        raise Refused(f"{name} is a number up to {most}, not {text[:60]!r}", code="malformed")
    return int(text)
