"""Every prefill with every decode: whether the pair can work, by what is registered, posted or unknown."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlplane.domain.compatibility import Compatibility, compare
from controlplane.domain.decodes import COMPARED, NOBODY_SAID, UNKNOWN, Decode, read, stored
from controlplane.domain.disagreement import Effect, Finding, Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.topology import SharedFacts

from . import routable
from .routable import RoutableRow
from .rows import InstanceRow, LaunchRow

MOST = 1000


@dataclass(frozen=True, slots=True)
class PairRow:
    """One pair. `decode` is empty for a decode that only described itself in the question.

    `known_from`: where the decode's facts come from: posted, observed (its engine says so), stored (it registered once),
    or nobody.
    """

    prefill: str
    launch: int | None
    decode: str
    known_from: str
    compatibility: Compatibility
    prefill_routable: bool
    decode_routable: bool
    because: str

    @property
    def verdict(self) -> str:
        return self.compatibility.verdict

    @property
    def usable(self) -> bool:
        """Nothing known speaks against sending this pair a request now."""
        return self.prefill_routable and self.decode_routable and self.verdict != "incompatible"


@dataclass(frozen=True, slots=True)
class PairPage:
    """Pairs in the order of their names; `next` asks for the rest, empty at the end. `total` counts all of them."""

    rows: tuple[PairRow, ...]
    next: str
    total: int


def pairs(
    *,
    now: float,
    prefill: str | None = None,
    decode: str | None = None,
    posted: Decode | None = None,
    after: str = "",
    limit: int = 200,
) -> PairPage:
    """Pairs of instances that are not retired. `posted` speaks for the decode that is named, or for one that has no name.

    Raises Refused: not_found for a name, conflict when it has the wrong role, malformed for `after` or `limit`.
    """
    if not 1 <= limit <= MOST:
        raise Refused(f"limit must be between 1 and {MOST}, not {limit}", code="malformed")
    fleet = [row for row in routable.wholes(now=now) if not row.instance.retired]
    prefills = of_role(fleet, "prefill", prefill)
    decodes: list[RoutableRow | None] = list(of_role(fleet, "decode", decode))
    if posted is not None and decode is None:
        decodes = [None]
    start = _start(after, prefills, decodes)
    compared = Compared(posted)
    total = len(prefills) * len(decodes)
    end = min(start + limit, total)
    rows = [compared.pair(*_place(index, prefills, decodes)) for index in range(start, end)]
    more = f"{rows[-1].prefill}/{rows[-1].decode}" if rows and end < total else ""
    return PairPage(tuple(rows), more, total)


def prefill_of(launch: LaunchRow, instance: InstanceRow | None = None) -> Prefill:
    """`instance`: whose launch it is, when the model that its engine serves matters too."""
    model = model_of(instance) if instance is not None else ""
    return Prefill(launch.topology, SharedFacts(**launch.facts), model)


def model_of(instance: InstanceRow) -> str:
    """Which model its engine said that it serves; "" when it was not asked, or did not say."""
    seen = instance.observation
    return str(seen.said.get("model", "") if seen is not None else "") or instance.engine.model


def known(row: RoutableRow | None, posted: Decode | None) -> tuple[str, Decode]:
    """What is known of a decode, and from whom."""
    if posted is not None:
        return "posted", posted
    if row is None:
        return "nobody", NOBODY_SAID
    told, current = _told(row), row.instance.current
    model = (model_of(row.instance) if row.role == "decode" else "") or UNKNOWN
    if told:
        return "observed", replace(read(told), model=model)
    if current is not None:
        return "stored", replace(stored(current.topology, SharedFacts(**current.facts)), model=model)
    return "nobody", replace(NOBODY_SAID, model=model)


def says_its_size(row: RoutableRow) -> bool:
    """Whether the engine of this decode told how many ranks it has, to whoever asked it."""
    return "tp_size" in _told(row)


def _told(row: RoutableRow | None) -> dict[str, Any]:
    """What the engine of a decode says of itself, to whoever asked it."""
    if row is None or row.role != "decode":
        return {}
    seen = row.instance.observation
    for said in (seen.said if seen is not None else {}, row.instance.engine.told):
        told = {name: value for name, value in said.items() if name in COMPARED}
        if told:
            return told
    return {}


class Compared:
    """Many instances are alike: each kind of pair is compared once."""

    def __init__(self, posted: Decode | None) -> None:
        self._posted = posted
        self._prefills: dict[str, Prefill | None] = {}
        self._seen: dict[tuple[Prefill | None, Decode], Compatibility] = {}

    def pair(self, prefill: RoutableRow, decode: RoutableRow | None) -> PairRow:
        known_from, what = known(decode, self._posted)
        against = [row.verdict.because for row in (prefill, decode) if row is not None and not row.routable]
        return PairRow(
            prefill.name,
            prefill.launch,
            decode.name if decode is not None else "",
            known_from,
            self._compare(prefill, what),
            prefill.routable,
            decode.routable if decode is not None else True,
            "; ".join(against),
        )

    def _compare(self, row: RoutableRow, decode: Decode) -> Compatibility:
        if row.name not in self._prefills:
            current = row.instance.current
            self._prefills[row.name] = prefill_of(current, row.instance) if current is not None else None
        prefill = self._prefills[row.name]
        if (prefill, decode) not in self._seen:
            self._seen[prefill, decode] = compare(decode, prefill) if prefill is not None else NOTHING_REGISTERED
        return self._seen[prefill, decode]


NOTHING_REGISTERED = Compatibility(
    (
        Finding(
            "launch", Effect.UNKNOWN, None, UNKNOWN, "no rank of the prefill is registered, so nothing is known of it"
        ),
    )
)


def of_role(fleet: Sequence[RoutableRow], role: str, name: str | None) -> list[RoutableRow]:
    found = [row for row in fleet if name is None or row.name == name]
    if name is not None and not found:
        raise Refused(f"no instance is named {name}", code="not_found")
    fitting = [row for row in found if row.role == role]
    if name is not None and not fitting:
        raise Refused(f"{name} is a {found[0].role}, not a {role}", code="conflict")
    return sorted(fitting, key=lambda row: row.name)


def _place(
    index: int, prefills: Sequence[RoutableRow], decodes: Sequence[RoutableRow | None]
) -> tuple[RoutableRow, RoutableRow | None]:
    return prefills[index // len(decodes)], decodes[index % len(decodes)]


def _start(after: str, prefills: Sequence[RoutableRow], decodes: Sequence[RoutableRow | None]) -> int:
    """The first pair behind a cursor `prefill/decode`, also when one of the two is gone by now."""
    if not after:
        return 0
    left, slash, right = after.partition("/")
    if not slash:
        raise Refused("after must be what an earlier page gave as next", code="malformed")
    place = bisect_left([row.name for row in prefills], left)
    if place == len(prefills) or prefills[place].name != left:
        return place * len(decodes)
    return place * len(decodes) + bisect_right([row.name if row is not None else "" for row in decodes], right)
