"""The tab with the ranks of an instance: grid or table, and the pane of the rank that is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from controlplane.domain.cells import SHOWS
from controlplane.domain.errors import Refused
from controlplane.queries import rank_story
from controlplane.queries.cells import LaunchCells
from controlplane.queries.closeup import CloseUp
from controlplane.queries.wording import slot_key
from dashboard.presenters.grid import ROWS, column_choices
from dashboard.presenters.instance_query import Asked
from dashboard.presenters.pane import pane
from dashboard.presenters.rank_table import read_slot, table
from dashboard.presenters.ranks import legend, panels
from dashboard.presenters.timeline import timeline


def ranks_context(seen: CloseUp, asked: Asked, *, drawn: bool, now: float) -> dict[str, Any]:
    cells = seen.cells(show=asked.show)
    context: dict[str, Any] = {
        "marks": legend(cells, asked),
        "timeline": timeline(seen.launches, seen.seats, now=now),
        "to_grid": asked.url(view="", state="", after=""),
        "to_table": asked.url(view="table", after=""),
        "cells_query": f"?{urlencode({'show': asked.show, 'dp': asked.first_dp})}",
    }
    if asked.view == "table":
        return context | _table(cells, asked)
    return context | _picker(asked) | {"panels": panels(cells, asked, drawn=drawn, now=now)}


def _table(cells: Sequence[LaunchCells], asked: Asked) -> dict[str, Any]:
    chosen = _chosen(cells, asked.launch)
    if chosen is None:
        return {"table": None}
    after = read_slot(asked.after, "after") if asked.after else None
    found = table(chosen, after=after, only=asked.only)
    return {
        "table": found,
        "launches": [(each.launch, asked.url(launch=each.launch.number, after="", state="")) for each in cells],
        "to_next": asked.url(after=found.next) if found.next else "",
        "to_first": asked.url(after="") if not found.first else "",
        "csv_query": f"?{urlencode({'launch': chosen.launch.number, 'state': asked.only or '', 'show': asked.show})}",
        "to_rank": asked.url(rank="", launch=chosen.launch.number),
        "to_all": asked.url(state="", after="") if asked.only is not None else "",
    }


def _picker(asked: Asked) -> dict[str, Any]:
    rows, columns = asked.layout.text
    return {
        "rows_choices": _named(dict.fromkeys([rows, *ROWS])),
        "column_choices": _named(dict.fromkeys([columns, *column_choices(asked.layout)])),
        "shows": tuple(SHOWS),
        "layout": asked.layout.text,
        "kept": [(name, value) for name, value in asked.given.items() if name not in ("rows", "cols", "show")],
    }


def pane_context(seen: CloseUp, asked: Asked) -> dict[str, Any]:
    """Nothing when no rank is chosen; a sentence when there is no such rank, or its launch has ended."""
    context: dict[str, Any] = {"pane": None, "pane_said": ""}
    if asked.slot is None:
        return context
    context |= {"pane_name": slot_key(asked.slot), "pane_close": asked.url(rank="", launch="")}
    chosen = _chosen(seen.cells(), asked.launch)
    if chosen is None:
        return context | {"pane_said": f"No launch of {seen.instance.name} is open, so nobody sits in a slot."}
    try:
        story = rank_story.story(seen, chosen, asked.slot)
    except Refused as refusal:
        return context | {"pane_said": f"{refusal.sentence}."}
    number = chosen.launch.number
    ended = asked.launch is not None and number != asked.launch
    found = pane(story, expects=seen.instance.role == "prefill")
    return context | {
        "pane": found,
        "pane_said": f"Launch {asked.launch} has ended; this is launch {number}." if ended else "",
        "pane_rank": chosen.rank(asked.slot),
        "pane_drain": seen.instance.drain_of(None) or seen.instance.drain_of(asked.slot.dp),
        "pane_before": asked.url(rank=found.before, launch=number),
        "pane_after": asked.url(rank=found.after, launch=number),
        "pane_alone": f"?{urlencode({'rank': found.key, 'launch': number})}",
    }


def _chosen(cells: Sequence[LaunchCells], number: int | None) -> LaunchCells | None:
    """The launch that is asked for, else the current one, else the candidate."""
    return next((each for each in cells if each.launch.number == number), cells[0] if cells else None)


def _named(choices: dict[str, None]) -> list[tuple[str, str]]:
    """Values of the URL with what people read.

    >>> _named({"dp.cp": None})
    [('dp.cp', 'dp × cp')]
    """
    return [(choice, choice.replace(".", " × ")) for choice in choices]
