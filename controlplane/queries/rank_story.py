"""One slot of a launch in full: the four facts with their age and whose word they are, and what the ledger says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from django.db import connections

from controlplane.databases import READER
from controlplane.domain.cells import Cell
from controlplane.domain.errors import Refused
from controlplane.domain.routable import Fact, Reason, Verdict
from controlplane.domain.topology import Slot
from controlplane.ledger.tail import EventRow

from .cells import CellRow, LaunchCells
from .closeup import CloseUp
from .events import CONTACTS
from .explain import FLAGS
from .rows import LaunchRow, RankRow
from .wording import slot_name

NEWEST = 2000
"""How far back the ledger is read for events of one slot: so many events about ranks of its instance."""

SHOWN = 8
# The slot stands inside of the data, and nowhere else: so the newest events are read, not all of them.
EVENTS = f"""
SELECT revision, at, kind, instance, actor, reason, data FROM (
 SELECT * FROM controlplane_event WHERE instance = %s AND kind LIKE 'rank.%%' ORDER BY revision DESC LIMIT {NEWEST}
) AS recent WHERE data LIKE %s AND data LIKE %s ORDER BY revision DESC LIMIT {SHOWN}"""


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence about a fact; `at`: when that was so, epoch seconds. `old`: nobody renews it now."""

    sentence: str
    at: float | None = None
    old: bool = False


@dataclass(frozen=True, slots=True)
class FactRow:
    """`no`: it speaks against sending work there. `since`: since when it is so, None when nobody kept that."""

    fact: Fact
    word: Cell
    no: bool
    since: float | None
    said: tuple[Said, ...]
    writer: str
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class RankStory:
    """`rank`: who sits, or sat last, in the slot. `verdict` is that of its DP group, None when the launch is not current."""

    slot: Slot
    launch: LaunchRow
    rank: RankRow | None
    cell: CellRow
    verdict: Verdict | None
    facts: tuple[FactRow, ...]
    events: tuple[EventRow, ...]

    @property
    def name(self) -> str:
        return slot_name(self.slot, self.launch.topology)

    @property
    def here(self) -> bool:
        return self.rank is not None and self.rank.left_at is None


def story(seen: CloseUp, cells: LaunchCells, slot: Slot) -> RankStory:
    """Raises Refused (not_found) when the topology of the launch has no such slot."""
    launch = cells.launch
    if not all(0 <= place < size for place, size in zip(slot, launch.topology.axes(), strict=True)):
        raise Refused(
            f"launch {launch.number} of {seen.instance.name} is {launch.topology}: it has no {slot}", code="not_found"
        )
    events = _events(seen.instance.name, launch.number, slot)
    verdict = None
    if launch.state == "current":
        verdict = next((group.verdict for group in seen.row.groups if group.group == slot.dp), None)
    teller = _Teller(seen, cells, slot, verdict, events)
    return RankStory(slot, launch, cells.rank(slot), cells[slot], verdict, tuple(teller.facts()), events)


class _Teller:
    def __init__(
        self, seen: CloseUp, cells: LaunchCells, slot: Slot, verdict: Verdict | None, events: tuple[EventRow, ...]
    ) -> None:
        self.seen, self.slot, self.launch = seen, slot, cells.launch
        self.rank = cells.rank(slot)
        self.words: Mapping[Fact, Cell] = cells.facts(slot)
        self.against = cells[slot].against
        self.reasons: tuple[Reason, ...] = verdict.reasons if verdict is not None else ()
        self.events = events

    def facts(self) -> Iterator[FactRow]:
        yield self._registration()
        yield self._health()
        yield self._intent()
        yield self._breaker()

    def _row(self, fact: Fact, since: float | None, said: list[Said], writer: str, *kinds: str) -> FactRow:
        revision = next((event.revision for event in self.events if event.kind in kinds), None)
        return FactRow(fact, self.words[fact], fact in self.against, since, tuple(said), writer, revision)

    def _registration(self) -> FactRow:
        rank, number = self.rank, self.launch.number
        said = [
            Said(f"{claim.address} claims it too, with the launch's own token")
            for claim in self.launch.claims
            if claim.slot == self.slot
        ]
        if rank is None:
            nobody = Said(f"nobody has registered here in launch {number}", self.launch.opened_at)
            return self._row(Fact.REGISTRATION, self.launch.opened_at, [nobody, *said], "bootstrap")
        if rank.left_at is not None:
            said = [Said(rank.left_reason, rank.left_at), Said("it had registered", rank.first_at), *said]
            return self._row(Fact.REGISTRATION, rank.left_at, said, "bootstrap", "rank.left")
        said = [Said("its last registration", rank.seen_at), *said]
        return self._row(Fact.REGISTRATION, rank.first_at, said, "bootstrap", "rank.registered")

    def _health(self) -> FactRow:
        rank, leader = self.rank, self.seen.leader
        if rank is None:
            return self._row(Fact.HEALTH, None, [Said("there is nobody to ask")], "bootstrap")
        leads = rank.verified and rank.left_at is None
        said = [Said(f"its address {CONTACTS[rank.contact]}", leader.stamp or None if leads else None, old=not leads)]
        said += [Said(f"it is not asked: it has {meaning}") for flag, meaning in FLAGS.items() if flag in rank.flags]
        if rank.left_at is None and not rank.verified:
            said.append(Said("the bootstrap process that leads now has not had an answer from it", old=True))
        since = next((event.at for event in self.events if event.kind == "rank.probed"), None)
        return self._row(Fact.HEALTH, rank.left_at or since, said, "bootstrap, by probes", "rank.probed")

    def _intent(self) -> FactRow:
        instance, dp = self.seen.instance, self.slot.dp
        group = next((row for row in instance.groups if row.group == dp), None)
        whole = instance.intent != "enabled" or group is None or group.intent == "enabled"
        actor, reason, at = (
            (instance.intent_actor, instance.intent_reason, instance.intent_at)
            if whole or group is None
            else (group.actor, group.reason, group.at)
        )
        what = "the instance" if whole else f"DP group {dp}"
        if at is None:
            return self._row(Fact.INTENT, None, [Said("so from the beginning: nobody has changed it")], "operators")
        wanted = f"{what} is {self.words[Fact.INTENT].value}, by {actor or 'somebody'}{f': {reason}' if reason else ''}"
        said = [Said(wanted, at)]
        return self._row(Fact.INTENT, at, said, "operators")

    def _breaker(self) -> FactRow:
        own = [reason for reason in self.reasons if reason.fact is Fact.BREAKER]
        said = [Said(reason.sentence, reason.seen_at, reason.old) for reason in own]
        since = min((reason.since for reason in own if reason.since is not None), default=None)
        unasked = [] if self.launch.state == "current" else [Said("gateways do not choose a candidate")]
        return self._row(Fact.BREAKER, since, said or unasked, "gateways")


def _events(instance: str, launch: int, slot: Slot) -> tuple[EventRow, ...]:
    """The newest events of this slot, the newest first."""
    place = msgspec.json.encode(list(slot)).decode()
    like = [f'%"launch":{launch},%', f'%"slot":{place}%']
    with connections[READER].cursor() as cursor:
        cursor.execute(EVENTS, [instance, *like])
        rows = cursor.fetchall()
    return tuple(
        EventRow(revision, at, kind, name, actor, reason, msgspec.json.decode(data))
        for revision, at, kind, name, actor, reason, data in rows
    )
