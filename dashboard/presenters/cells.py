"""How a slot of a grid looks: the class of its cell, its icon, its four ticks, and what it says to whoever asks."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.routable import Fact
from controlplane.queries.cells import CellRow

from .states import STATES

LOUD = frozenset({"down", "refused", "stranger", "silent", "open"})
"""What needs a person. Everything else is quiet."""

VOID = frozenset({"missing", "left"})
THIN = frozenset({"cordoned"})
"""Cells of one colour, and too small for icons, are told apart by their shape."""


@dataclass(frozen=True, slots=True)
class CellView:
    """`classes` of the button, `icon` and `ticks` as symbols, `text`: the words behind the name of the slot."""

    classes: str
    icon: str
    ticks: str
    text: str


def view(row: CellRow) -> CellView:
    """
    >>> view(CellRow("routable"))
    CellView(classes='rk t-ok', icon='ok', ticks='0000', text='routable')
    >>> view(CellRow("silent", frozenset({Fact.HEALTH, Fact.BREAKER}), shut=("gw-1",))).text
    'silent, breaker not closed at gw-1'
    """
    word = str(row.cell)
    state = STATES[word]
    looks = ["rk", f"t-{state.tone}"]
    looks += [name for name, words in (("loud", LOUD), ("void", VOID), ("shut", THIN)) if word in words]
    ticks = "".join("1" if fact in row.against else "0" for fact in Fact)
    said = [state.word]
    if row.shut:
        said.append(f"breaker not closed at {', '.join(row.shut[:3])}")
    said += [f"claimed by {address}" for address in row.claims]
    return CellView(" ".join(looks), state.icon, ticks, ", ".join(said))
