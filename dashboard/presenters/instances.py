"""Instances as rows of the overview: what is wanted, what is seen, and how much of it can be sent work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.topology import Topology
from controlplane.queries.compatibility import known
from controlplane.queries.overview import ListedRow, OpenRoomsSaid
from controlplane.queries.rows import InstanceRow, LaunchRow

from .attention import instance_url
from .pairs import told_sizes
from .strip import Strip, strip_of

LETTERS = {"prefill": "P", "decode": "D", "seed": "S"}
STRICTEST = ("draining", "cordoned")

OLD_SECONDS = 30.0
"""Gateways and workers report every few seconds: an older word has its age beside it."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """`who`: model and version, as it said at `who_at`. `old_at`: when it was asked last, if that is long ago."""

    state: str
    sentence: str
    who: str
    who_at: float | None
    old_at: float | None


@dataclass(frozen=True, slots=True)
class InstanceView:
    """`ready_tone`: nothing when all can be sent work; want, when what lacks was wanted away. `act`: for the tag `act`."""

    row: InstanceRow
    url: str
    letter: str
    topology: str
    kv: str
    desired: str
    desired_more: str
    observed: str
    observed_more: str
    because: str
    ready: int
    expected: int
    ready_tone: str
    strip: Strip
    launch: LaunchRow | None
    fills: str
    fills_tone: str
    coming: str
    rooms: OpenRoomsSaid | None
    rooms_old: bool
    act: str
    drain: int | None
    engine: EngineView | None = None

    @property
    def name(self) -> str:
        return self.row.name


def instance_view(listed: ListedRow, *, now: float) -> InstanceView:
    row, one = listed.row, listed.row.instance
    desired, more = desired_words(one)
    current, candidate = one.current, one.candidate
    drain = next(iter(one.drains), None)
    return InstanceView(
        row=one,
        url=instance_url(one.name),
        letter=LETTERS[one.role],
        topology=topology_text(current.topology) if current else told_sizes(row),
        kv=kv_text(current.facts) if current else kv_text(known(row, None)[1].said),
        desired=desired,
        desired_more=more,
        observed=listed.observed,
        observed_more=_how_many(listed),
        because=row.verdict.because,
        ready=listed.ready,
        expected=one.expected,
        ready_tone=_ready_tone(listed),
        strip=strip_of(
            listed.marks,
            routable={group.group: row.routable and group.verdict.routable for group in row.groups},
            intents={group.group: group.intent for group in row.groups},
        ),
        launch=current,
        fills=f"{current.registered:,}/{current.expected:,}" if current and not current.full else "",
        fills_tone="bad" if listed.observed == "down" else "busy",
        coming=f"{candidate.number} at {candidate.registered:,}/{candidate.expected:,}" if candidate else "",
        rooms=listed.rooms,
        rooms_old=listed.rooms is not None and now - listed.rooms.taken_at > OLD_SECONDS,
        act="uncordon" if one.intent == "cordoned" else "drain",
        drain=drain.id if drain is not None else None,
        engine=_engine(one, now),
    )


def _engine(one: InstanceRow, now: float) -> EngineView | None:
    engine = one.engine
    if not engine.at:
        return None
    return EngineView(
        engine.state,
        engine.sentence,
        " ".join(filter(None, (engine.model, engine.version))),
        engine.identified_at,
        engine.asked_at if engine.is_old(now) else None,
    )


def desired_words(one: InstanceRow) -> tuple[str, str]:
    """The strictest intent, and of which DP groups it is when it is not that of the whole instance."""
    if one.intent != "enabled":
        return one.intent, ""
    for word in STRICTEST:
        groups = [group.group for group in one.groups if group.intent == word]
        if groups:
            return word, f"dp{groups[0]}" if len(groups) == 1 else f"{len(groups)} DP groups"
    return "enabled", ""


def topology_text(topology: Topology) -> str:
    """
    >>> topology_text(Topology(2, 1, 8, 2))
    '2×1×8×2'
    """
    return "×".join(map(str, topology.axes()))


def kv_text(facts: Mapping[str, Any]) -> str:
    """What a decode must have alike: the size of a page and the type of KV. Nothing when neither is known.

    >>> kv_text({"page_size": 64}), kv_text({})
    ('64 · ?', '')
    """
    said = (facts.get("page_size"), facts.get("kv_cache_dtype"))
    return " · ".join("?" if fact is None else str(fact) for fact in said) if any(said) else ""


def _how_many(listed: ListedRow) -> str:
    if listed.observed == "degraded":
        silent = sum(group.unanswered for group in listed.row.groups)
        return f"· {silent} silent" if silent else f"· engine {listed.row.instance.engine.state}"
    if listed.observed in ("live", "conflict") and listed.row.role == "seed":
        return f"· {listed.row.instance.sessions}"
    return ""


def _ready_tone(listed: ListedRow) -> str:
    row, expected = listed.row, listed.row.instance.expected
    if listed.ready >= expected:
        return ""
    away = sum(group.size for group in row.groups if group.intent != "enabled")
    if away >= expected - listed.ready:
        return "want"
    if listed.observed in ("filling", "unproven"):
        return "busy"
    return "warn" if listed.ready else "bad"
