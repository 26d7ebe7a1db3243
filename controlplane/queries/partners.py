"""With whom an instance can work, from what engines and ranks said of themselves: one query, nobody is weighed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connections

from controlplane.databases import READER
from controlplane.domain import observing
from controlplane.domain.compatibility import Compatibility, compare
from controlplane.domain.decodes import COMPARED, Decode, read, stored
from controlplane.domain.disagreement import Prefill
from controlplane.domain.engine_health import where
from controlplane.domain.errors import Refused
from controlplane.domain.topology import SharedFacts, Topology

from .compatibility import known, prefill_of
from .routable import RoutableRow

MOST = 1000
OTHER = {"prefill": "decode", "decode": "prefill"}
PARTNERS = f"""
SELECT i.name, i.role, i.engine_url, i.observed_url, i.observation, e.at, e.said, l.dp, l.cp, l.tp, l.pp, l.facts
FROM controlplane_instance i LEFT JOIN controlplane_enginehealth e ON e.instance_id = i.id
LEFT JOIN controlplane_launch l ON l.instance_id = i.id AND l.ended_at IS NULL AND l.state = 'current'
WHERE i.role = %s AND i.intent <> 'retired' ORDER BY i.name LIMIT {MOST}"""


@dataclass(frozen=True, slots=True)
class Partners:
    """`misfits`: those that it cannot work with, with the reason; `fitting` and `unsure`: how many others."""

    misfits: tuple[str, ...] = ()
    fitting: int = 0
    unsure: int = 0


def partners(row: RoutableRow) -> Partners:
    """Of the first thousand instances of the other role."""
    other = OTHER.get(row.role)
    if other is None:
        return Partners()
    # Asked for whatever is known of itself, so that a page costs the same before its ranks came as after.
    with connections[READER].cursor() as cursor:
        cursor.execute(PARTNERS, [other])
        rows = cursor.fetchall()
    judge = _judge(row)
    if judge is None:
        return Partners(unsure=len(rows))
    misfits, fitting, unsure = [], 0, 0
    for values in rows:
        verdict = judge(values)
        against = verdict.why_not if verdict is not None else None
        if against is not None:
            misfits.append(f"{values[0]}: {against.sentence}")
        elif verdict is not None and verdict.verdict == "compatible":
            fitting += 1
        else:
            unsure += 1
    return Partners(tuple(misfits), fitting, unsure)


Judge = Callable[[tuple[Any, ...]], Compatibility | None]


def _judge(row: RoutableRow) -> Judge | None:
    """How a row of the other role is compared with this instance; None while nothing is known of it."""
    seen: dict[Prefill | Decode, Compatibility] = {}
    if row.role == "prefill":
        if row.instance.current is None:
            return None
        own = prefill_of(row.instance.current)

        def with_decode(values: tuple[Any, ...]) -> Compatibility:
            decode = _decode(values)
            if decode not in seen:
                seen[decode] = compare(decode, own)
            return seen[decode]

        return with_decode
    asking = known(row, None)[1]

    def with_prefill(values: tuple[Any, ...]) -> Compatibility | None:
        if values[7] is None:
            return None
        prefill = Prefill(*_launch(values))
        if prefill not in seen:
            seen[prefill] = compare(asking, prefill)
        return seen[prefill]

    return with_prefill


def _decode(values: tuple[Any, ...]) -> Decode:
    """What its engine says of itself, else what its ranks registered with once."""
    _, role, engine_url, observed_url, observation, at, said = values[:7]
    heard = observing.restored(observation) if observed_url else None
    told = [heard.said] if heard is not None and heard.at == observed_url else []
    told += [_object(said)] if at and at == where(role, engine_url, observed_url) else []
    for one in told:
        known_of = {name: value for name, value in one.items() if name in COMPARED}
        if known_of:
            try:
                return read(known_of)
            except Refused:
                continue
    return stored(*_launch(values)) if values[7] is not None else Decode()


def _launch(values: tuple[Any, ...]) -> tuple[Topology, SharedFacts]:
    return Topology(*values[7:11]), SharedFacts(**msgspec.json.decode(values[11]))


def _object(text: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return {}
    return found if isinstance(found, dict) else {}
