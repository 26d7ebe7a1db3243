"""Grids of ranks as HTML. Written out and not from a template: four thousand cells in milliseconds, not in a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString

from controlplane.domain.topology import Slot, Topology
from controlplane.queries.wording import slot_name
from dashboard.presenters.cells import CellView
from dashboard.presenters.grid import Heads, Line
from dashboard.presenters.ranks import Grid

register = template.Library()

LABELLED = 8
"""In grids of small cells every so many columns have their number above them."""


@register.simple_tag
def rank_grid(grid: Grid) -> SafeString:
    """`{% rank_grid grid %}`: the rows of the grid, heads and cells."""
    cell = _cells(grid)
    return SafeString("\n".join((*_heads(grid), *(_row(line, cell) for line in grid.lines()))))


@register.simple_tag
def ticks() -> SafeString:
    """The symbols of the four ticks, once a page: `#t-0101` says no in its second and fourth fact."""
    symbols = (_symbol(f"{number:04b}") for number in range(16))
    return SafeString(f'<svg hidden width="0" height="0" aria-hidden="true">{"".join(symbols)}</svg>')


def _symbol(ticks: str) -> str:
    tall = '<rect x="{x}" width="6" height="8" fill="currentColor"/>'
    flat = '<rect x="{x}" y="5" width="6" height="2" fill="currentColor" opacity=".4"/>'
    bars = (tall.format(x=8 * place) if no == "1" else flat.format(x=8 * place) for place, no in enumerate(ticks))
    return f'<symbol id="t-{ticks}" viewBox="0 0 30 8">{"".join(bars)}</symbol>'


def _heads(grid: Grid) -> Iterator[str]:
    heads: Heads = grid.heads
    if heads.groups[0] and len(heads.groups) > 1:
        groups = (
            f'<span role="columnheader" aria-colspan="{len(columns)}" class="cg">{name}</span>'
            + '<span class="cg" aria-hidden="true"></span>' * (len(columns) - 1)
            for name, columns in zip(heads.groups, heads.columns, strict=True)
        )
        yield f'<div role="row">{_corner("")}{GAP.join(groups)}</div>'
    every = LABELLED if grid.size == "micro" else 1
    columns = (
        "".join(
            f'<span role="columnheader" class="ch">{name if place % every == 0 else HIDDEN.format(name)}</span>'
            for place, name in enumerate(names)
        )
        for names in heads.columns
    )
    yield f'<div role="row">{_corner(" ".join(grid.layout.rows))}{GAP.join(columns)}</div>'


GAP = '<span class="gap"></span>'
HIDDEN = '<span class="vh">{}</span>'


def _corner(name: str) -> str:
    return f'<span role="columnheader" class="rh"><span class="vh">{name or "group"}</span></span>'


def _row(line: Line, cell: Callable[[Slot], str]) -> str:
    groups = ("".join(map(cell, slots)) for slots in line.groups)
    return f'<div role="row"><span role="rowheader" class="rh mono">{line.name}</span>{GAP.join(groups)}</div>'


def _cells(grid: Grid) -> Callable[[Slot], str]:
    topology: Topology = grid.launch.topology
    stop, selected = grid.stop, grid.selected
    inner = INNER[grid.size]

    def cell(slot: Slot) -> str:
        view: CellView = grid.view(slot)
        key = ".".join(map(str, slot))
        chosen = ' aria-selected="true"' if slot == selected else ""
        return (
            f'<button type="button" role="gridcell" class="{view.classes}" tabindex="{0 if slot == stop else -1}"'
            f' data-s="{key}" aria-label="{slot_name(slot, topology)}: {escape(view.text)}"{chosen}>'
            f"{inner.format(icon=view.icon, ticks=view.ticks)}</button>"
        )

    return cell


ICON = '<svg class="i" aria-hidden="true"><use href="#i-{icon}"/></svg>'
TICKS = '<svg class="f4" viewBox="0 0 30 8" aria-hidden="true"><use href="#t-{ticks}"/></svg>'
INNER = {"full": ICON + TICKS, "tight": ICON, "micro": ""}
"""What stands in a cell, by the size of the grid's cells."""
