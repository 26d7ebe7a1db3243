"""Cells as the browser patches them: each look once, and for every slot which of them it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.domain.topology import Slot
from controlplane.queries.cells import CellRow, LaunchCells

from .cells import view
from .grid import Layout, lines, window


def deltas(launches: Sequence[LaunchCells], *, slots: Sequence[Slot] = (), first_dp: int = 0) -> dict[str, Any]:
    """`looks`: [classes, icon, ticks, text]; `cells`: by launch and slot the place of its look.

    Of `slots`, or of the whole window that a grid shows. Slots that a launch does not have are left out.
    """
    places: dict[CellRow, int] = {}
    found: dict[str, dict[str, int]] = {}
    for each in launches:
        own = found[str(each.launch.number)] = {}
        for slot in _wanted(each, slots, first_dp):
            own[".".join(map(str, slot))] = places.setdefault(each[slot], len(places))
    looks = [view(row) for row in places]
    return {"looks": [[look.classes, look.icon, look.ticks, look.text] for look in looks], "cells": found}


def _wanted(cells: LaunchCells, slots: Sequence[Slot], first_dp: int) -> list[Slot]:
    topology = cells.launch.topology
    if slots:
        return [slot for slot in slots if all(at < size for at, size in zip(slot, topology.axes(), strict=True))]
    shown = lines(Layout(), window(topology, first_dp))
    return [slot for line in shown for group in line.groups for slot in group]
