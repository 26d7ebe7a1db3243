"""The matrix of pairs as a page shows it: a word, the reason in the cell, and what was sent that way lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from controlplane.domain.decodes import UNKNOWN, Decode
from controlplane.domain.disagreement import Effect, Finding, Prefill
from controlplane.queries.compatibility import PairRow, known, prefill_of
from controlplane.queries.matrix import Chosen, Matrix
from controlplane.queries.pair_traffic import TrafficRow
from controlplane.queries.routable import RoutableRow

from .states import OK, WARN, state_of

MUCH_FAILED = 0.01
DESCRIBED = "as described"


@dataclass(frozen=True, slots=True)
class SideView:
    """The head of a row or a column. `sizes`: its topology, or that nobody said it."""

    name: str
    role: str
    sizes: str
    launch: int | None
    state: str
    intent: str
    routable: bool


@dataclass(frozen=True, slots=True)
class CellView:
    key: str
    query: str
    prefill: str
    decode: str
    outlook: str
    tone: str
    reason: str
    off: str
    traffic: TrafficRow | None
    failing: bool
    chosen: bool

    @property
    def loud(self) -> bool:
        return self.outlook in ("incompatible", "unproven", "costly")

    @property
    def failed(self) -> str:
        if self.traffic is None:
            return ""
        share = self.traffic.failed_share
        # Few are not none.
        return "<0.1%" if 0 < share < 0.001 else f"{share:.1%}"


@dataclass(frozen=True, slots=True)
class RowView:
    side: SideView
    cells: tuple[CellView, ...]


def side_view(row: RoutableRow) -> SideView:
    current = row.instance.current
    if current is not None:
        dp, cp, tp, pp = current.topology.axes()
        sizes = f"dp{dp} cp{cp} tp{tp} pp{pp}"
    else:
        sizes = (told_sizes(row) or "nobody said its sizes") if row.role == "decode" else "nothing registered"
    state = row.instance.state if row.role != "decode" or current is not None else "unknown"
    return SideView(row.name, row.role, sizes, row.launch, state, row.instance.intent, row.routable)


def told_sizes(row: RoutableRow) -> str:
    """What the engine of a decode that never registered says of its sizes; empty when it says nothing."""
    told = known(row, None)[1].said
    return " ".join(f"{axis}{told[size]}" for axis, size in (("tp", "tp_size"), ("pp", "pp_size")) if told.get(size))


def row_views(
    found: Matrix,
    traffic: Mapping[tuple[str, str], TrafficRow],
    kept: Sequence[tuple[str, str]],
    posted: Decode | None = None,
) -> list[RowView]:
    """`kept`: what stays in the query of a link to a pair. `posted`: the decode that was described."""
    decodes: list[RoutableRow | None] = [*([None] if found.described else []), *found.decodes.rows]
    chosen = (found.chosen.pair.prefill, found.chosen.pair.decode) if found.chosen is not None else None
    views = []
    for row, cells in zip(found.prefills.rows, found.cells, strict=True):
        current = row.instance.current
        facts = prefill_of(current) if current is not None else None
        views.append(
            RowView(
                side_view(row),
                tuple(
                    _cell(
                        pair,
                        facts,
                        posted if pair.known_from == "posted" else known(other, None)[1],
                        traffic.get((pair.prefill, pair.decode)),
                        kept,
                        chosen,
                    )
                    for pair, other in zip(cells, decodes, strict=True)
                ),
            )
        )
    return views


def _cell(
    pair: PairRow,
    facts: Prefill | None,
    said: Decode | None,
    traffic: TrafficRow | None,
    kept: Sequence[tuple[str, str]],
    chosen: tuple[str, str] | None,
) -> CellView:
    outlook = pair.compatibility.outlook
    return CellView(
        f"pc-{pair.prefill}--{pair.decode or 'described'}",
        urlencode([*kept, ("prefill", pair.prefill), *([("decode", pair.decode)] if pair.decode else [])]),
        pair.prefill,
        pair.decode or DESCRIBED,
        outlook,
        state_of(outlook).tone,
        reason(pair, facts, said),
        "" if pair.prefill_routable and pair.decode_routable else off_text(pair),
        traffic,
        traffic is not None and traffic.failed_share >= MUCH_FAILED,
        (pair.prefill, pair.decode) == chosen,
    )


def off_text(pair: PairRow) -> str:
    sides = [
        name for name, fine in ((pair.prefill, pair.prefill_routable), (pair.decode, pair.decode_routable)) if not fine
    ]
    return f"{' and '.join(sides)} not routable"


def reason(pair: PairRow, facts: Prefill | None, said: Decode | None) -> str:
    """What stands in the cell: the fact that decides, else how the ranks fit."""
    told = pair.compatibility.telling
    if told is None:
        return fits_text(facts, said) if facts is not None and said is not None else "nothing speaks against it"
    if told.effect is Effect.UNKNOWN and facts is not None:
        names = [f.field for f in pair.compatibility.findings if f.effect is Effect.UNKNOWN]
        return f"decode did not say {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
    return in_short(told)


def in_short(told: Finding) -> str:
    """`page_size 64 ≠ 32`; a sentence where there are no two values to set against each other."""
    plain = isinstance(told.prefill, int | str) and isinstance(told.decode, int | str)
    if plain and told.sentence.startswith(f"{told.field} differs") and len(f"{told.prefill}{told.decode}") <= 40:
        return f"{told.field} {told.prefill} ≠ {told.decode}"
    return told.sentence if len(told.sentence) <= 90 else f"{told.sentence[:88]}…"


def fits_text(prefill: Prefill, decode: Decode) -> str:
    """
    >>> from controlplane.domain.topology import SharedFacts, Topology
    >>> side = Prefill(Topology(2, 1, 8, 2), SharedFacts(64, "auto"))
    >>> fits_text(side, Decode(tp_size=4, pp_size=1, is_mla=True)), fits_text(side, Decode(tp_size=8, pp_size=2))
    ('tp 8→4, MLA: 1 of 2 sends · pp 2→1: all stages', 'equal tp')
    """
    theirs, ours = prefill.topology.tp, decode.tp_size
    said = ["equal tp"]
    if isinstance(ours, int) and ours != theirs:
        many = max(ours, theirs) // min(ours, theirs)
        if ours > theirs:
            said = [f"tp {theirs}→{ours}: each feeds {many}"]
        else:
            said = [
                f"tp {theirs}→{ours}, MLA: 1 of {many} sends"
                if decode.is_mla is True
                else f"tp {theirs}→{ours}: {many} send each"
            ]
    stages, own = prefill.topology.pp, decode.pp_size
    if stages > 1 and own is not UNKNOWN and own != stages:
        said.append(f"pp {stages}→{own}: all stages")
    return " · ".join(said)


def verdict_tone(chosen: Chosen) -> str:
    found = chosen.pair.compatibility
    tone = state_of(found.outlook).tone
    return WARN if tone == OK and not chosen.pair.usable else tone


def verdict_sentence(chosen: Chosen) -> tuple[str, str]:
    """What is said of the pair first: a few words, then the sentence."""
    pair = chosen.pair
    told = pair.compatibility.telling
    if told is None:
        if pair.usable:
            return "It fits.", "Nothing that is known speaks against sending this pair a request."
        return "It fits, and is not used.", f"{_sentence(pair.because)}"
    head = {
        "incompatible": "It cannot work.",
        "unknown": "Not known.",
        "unproven": "Not compared.",
        "costly": "It works, slower.",
    }
    said = told.sentence if told.effect is Effect.SLOWER else f"{told.sentence}: {told.what_happens}"
    return head[pair.compatibility.outlook], _sentence(said)


def _sentence(text: str) -> str:
    """Names of fields and instances stay as they are written.

    >>> _sentence("the decode does not say it"), _sentence("page_size differs")
    ('The decode does not say it.', 'page_size differs.')
    """
    first = text.split(" ", 1)[0]
    return f"{text if not first.isalpha() else text[:1].upper() + text[1:]}."
