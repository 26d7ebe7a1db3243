"""All pairs of a fleet at once, as numbers, and who fits nobody: instances that are alike are compared once.

`queries.compatibility` tells of each pair by itself; here a thousand instances take as long as their kinds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from controlplane.domain.attention_fleet import Misfit
from controlplane.domain.compatibility import Compatibility, compare
from controlplane.domain.decodes import Decode
from controlplane.domain.disagreement import Prefill

from .compatibility import known, prefill_of
from .routable import RoutableRow
from .routers import RouterRow

K = TypeVar("K")
Found = dict[tuple[Prefill, Decode], Compatibility]


@dataclass(frozen=True, slots=True)
class Pairing:
    """`usable`: both can be sent work, and nothing known speaks against the pair. `cannot`: it can never work."""

    total: int
    usable: int
    cannot: int
    misfits: tuple[Misfit, ...]


def pairing(fleet: Sequence[RoutableRow], routers: Iterable[RouterRow] = ()) -> Pairing:
    living = [row for row in fleet if not row.instance.retired]
    lefts = [row for row in living if row.role == "prefill"]
    rights = [row for row in living if row.role == "decode"]
    prefills = _kinds((_prefill(row), row) for row in lefts)
    decodes = _kinds((known(row, None)[1], row) for row in rights)
    found: Found = {(one, other): compare(other, one) for one in prefills if one is not None for other in decodes}
    usable = cannot = 0
    for one, left in prefills.items():
        for other, right in decodes.items():
            if one is not None and found[one, other].verdict == "incompatible":
                cannot += len(left) * len(right)
            else:
                usable += sum(row.routable for row in left) * sum(row.routable for row in right)
    misfits = (*_put_together(living, found, routers), *_fit_nobody(prefills, decodes, found))
    return Pairing(len(lefts) * len(rights), usable, cannot, misfits)


def _prefill(row: RoutableRow) -> Prefill | None:
    current = row.instance.current
    return prefill_of(current) if current is not None else None


def _kinds(rows: Iterable[tuple[K, RoutableRow]]) -> dict[K, list[RoutableRow]]:
    found: dict[K, list[RoutableRow]] = defaultdict(list)
    for kind, row in rows:
        found[kind].append(row)
    return dict(found)


def _put_together(fleet: Iterable[RoutableRow], found: Found, routers: Iterable[RouterRow]) -> Iterator[Misfit]:
    """A router pairs whatever it holds, so it must not hold two that cannot work: one such pair of each router."""
    by_name = {row.name: row for row in fleet}
    for router in routers:
        held = [by_name[member.instance] for member in router.members if member.present and member.instance in by_name]
        pairs = (
            (left, right, kinds)
            for left in held
            for right in held
            if (left.role, right.role) == ("prefill", "decode")
            for kinds in [(_prefill(left), known(right, None)[1])]
        )
        for left, right, (one, other) in pairs:
            if one is not None and found[one, other].verdict == "incompatible":
                yield _misfit([left], [right], found[one, other], router=router.name)
                break


def _fit_nobody(
    prefills: dict[Prefill | None, list[RoutableRow]], decodes: dict[Decode, list[RoutableRow]], found: Found
) -> Iterator[Misfit]:
    """Kinds of decodes that no prefill here fits, then kinds of prefills that no decode here fits."""
    lefts = {one: rows for one, rows in prefills.items() if one is not None}
    told: set[Prefill] = set()
    for other, right in decodes.items():
        own = [(one, found[one, other]) for one in lefts]
        if own and all(pair.verdict == "incompatible" for _, pair in own):
            told |= lefts.keys()
            yield _misfit(right, [row for one, _ in own for row in lefts[one]], own[0][1])
    for one, left in lefts.items():
        pairs = [found[one, other] for other in decodes]
        # Whoever was named beside a decode that fits nobody need not be named again.
        if one not in told and pairs and all(pair.verdict == "incompatible" for pair in pairs):
            yield _misfit(left, [row for rows in decodes.values() for row in rows], pairs[0])


def _misfit(
    own: Sequence[RoutableRow], others: Sequence[RoutableRow], pair: Compatibility, *, router: str = ""
) -> Misfit:
    why = pair.why_not
    assert why is not None
    times = [row.instance.current.completed_at for row in (own[0], others[0]) if row.instance.current is not None]
    prefill, decode = (own[0], others[0]) if own[0].role == "prefill" else (others[0], own[0])
    return Misfit(
        name=own[0].name,
        prefill=prefill.name,
        decode=decode.name,
        others=len(others),
        alike=len(own),
        field=why.field,
        sentence=why.sentence,
        what_happens=why.what_happens,
        since=max((at for at in times if at is not None), default=None),
        router=router,
    )
