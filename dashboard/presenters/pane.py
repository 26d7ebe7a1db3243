"""One rank beside the grid: the verdict in a sentence, what to do next, the four facts, and who takes KV from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.cells import Cell
from controlplane.domain.disagreement import Prefill
from controlplane.domain.reach import Reached, reached_by
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.queries.events import EventRow, sentence
from controlplane.queries.rank_story import FactRow, RankStory
from controlplane.queries.wording import listing, slot_key

from .states import STATES, State


@dataclass(frozen=True, slots=True)
class Advice:
    """What comes next, and the action that does it: to the rank, or to its DP group."""

    sentence: str
    rank_act: str = ""
    group_act: str = ""


NEXT: Mapping[Cell, Advice] = {
    Cell.DOWN: Advice("Start its process again: it takes this slot when it registers.", "readmit"),
    Cell.LEFT: Advice("If it still runs, have it counted again.", "readmit"),
    Cell.MISSING: Advice("Look whether its process was started, and whether its registrations are refused."),
    Cell.REFUSED: Advice("Start its process again, or evict it to free the slot.", "evict"),
    Cell.SILENT: Advice(
        "Look at its process: the port accepts connections, but nobody greets. It may be frozen.", "evict"
    ),
    Cell.STRANGER: Advice("Another program holds its port. Evict it, and start it on a free port.", "evict"),
    Cell.UNREACHED: Advice("Look at the route from the bootstrap process; workers may still reach it."),
    Cell.UNPROBED: Advice("Nobody asks this address from here; what workers meet there is not observed."),
    Cell.UNVERIFIED: Advice("Wait for the next round of probes."),
    Cell.CORDONED: Advice("New requests go elsewhere until its DP group is uncordoned.", group_act="uncordon"),
    Cell.DRAINING: Advice("See what its drain waits for."),
    Cell.DRAINED: Advice("Nothing is left here: it can be stopped."),
    Cell.OPEN: Advice("Every gateway keeps away; each lets one request through when its pause is over."),
}
"""Of words that are missing here there is nothing that anybody needs to do about this rank."""


@dataclass(frozen=True, slots=True)
class FactView:
    """`classes`: of its line, blank while it allows traffic."""

    row: FactRow
    name: str
    state: State
    classes: str


@dataclass(frozen=True, slots=True)
class Pane:
    story: RankStory
    tone: str
    head: str
    said: str
    advice: Advice | None
    facts: tuple[FactView, ...]
    reached: tuple[tuple[str, str], ...]
    before: str
    after: str

    @property
    def key(self) -> str:
        return slot_key(self.story.slot)

    @property
    def events(self) -> list[tuple[EventRow, str]]:
        return [(event, sentence(event)) for event in self.story.events]


def pane(story: RankStory, *, expects: bool) -> Pane:
    """`expects`: the instance is one that decodes take KV from."""
    tone, head = _head(story)
    topology = story.launch.topology
    return Pane(
        story,
        tone,
        head,
        _said(story),
        NEXT.get(story.cell.cell),
        tuple(map(_fact, story.facts)),
        tuple(map(_reached, reached_by(story.slot, _prefill(story)))) if expects and story.here else (),
        _neighbour(topology, story.slot, -1),
        _neighbour(topology, story.slot, 1),
    )


def _head(story: RankStory) -> tuple[str, str]:
    cell = story.cell.cell
    if cell is Cell.ROUTABLE:
        return "ok", "Routable."
    if story.launch.state == "candidate":
        return (STATES[cell].tone, "Not in charge.")
    tone = STATES[cell].tone
    return ("warn" if tone == "ok" else tone), "Not routable."


def _said(story: RankStory) -> str:
    """What the rank itself is not fit for, then its DP group."""
    against = [said.sentence for fact in story.facts if fact.no for said in fact.said[:1]]
    verdict = story.verdict
    if verdict is not None and not verdict.routable and verdict.because not in against:
        against.append(verdict.because)
    if verdict is None:
        against.append(f"launch {story.launch.number} is a candidate: it takes over when it is complete")
    if not against and verdict is not None:
        return "; ".join(reason.sentence for reason in verdict.reasons[:2]) + "."
    return _sentence("; ".join(dict.fromkeys(against)))


def _fact(row: FactRow) -> FactView:
    state = STATES[row.word]
    loud = f"no t-{state.tone if state.tone != 'ok' else 'warn'}" if row.no else ""
    return FactView(row, row.fact.value.capitalize(), state, loud)


def _prefill(story: RankStory) -> Prefill:
    return Prefill(story.launch.topology, SharedFacts(**story.launch.facts))


def _reached(found: Reached) -> tuple[str, str]:
    ranks = f"its rank{'s' if len(found.ranks) > 1 else ''} {listing(map(str, found.ranks), limit=8)}"
    if not found.ranks:
        return f"TP {found.tp}", "no rank of it"
    return f"TP {found.tp}", f"{ranks}{'; with MLA another rank sends for this one' if found.dummy else ''}"


def _neighbour(topology: Topology, slot: Slot, step: int) -> str:
    """The slot before or after it, in slot order; blank at the ends."""
    _, cp, tp, pp = topology.axes()
    place = ((slot.dp * cp + slot.cp) * tp + slot.tp) * pp + slot.pp + step
    if not 0 <= place < topology.size:
        return ""
    rest, stage = divmod(place, pp)
    rest, rank = divmod(rest, tp)
    return slot_key(Slot(*divmod(rest, cp), rank, stage))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
