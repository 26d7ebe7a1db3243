"""What was heard of an observed instance, staged: its ranks as if they had registered, and what its own server is like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.errors import Refused
from controlplane.domain.launch import Address
from controlplane.domain.observing import Memory, missing_again, registrations, sentence, stored, token_of
from controlplane.domain.registration import register
from controlplane.domain.topology import SharedFacts, Slot, Topology
from controlplane.ledger.writes import Writes

from .fleet import Instance
from .operations import retire_engines_of
from .recorder import Operation, Staged

KEEP = "UPDATE controlplane_instance SET observation = %s WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole reading of an observed server: who sits where. `flags` by rank_ip, from where it was told."""

    topology: Topology
    facts: SharedFacts
    slots: Mapping[Slot, Address]
    http_port: int | None
    flags: Mapping[str, tuple[str, ...]]


class Mirror(Operation):
    """One look at an observed instance. `memory` is what holds once it is recorded; `problem`, what did not fit."""

    __slots__ = ("_heard", "before", "gone", "listing", "memory", "problem")

    def __init__(
        self, instance: Instance, memory: Memory, *, before: Memory, listing: Listing | None = None, gone: str = ""
    ) -> None:
        """`gone`: why nobody is listed there any more."""
        super().__init__(instance)
        self._heard = memory
        self.memory = memory
        self.before = before
        self.listing = listing
        self.gone = gone
        self.problem = ""

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        self.memory, self.problem = self._heard, ""
        if self.instance.retired or not self.instance.observed:
            return
        if self.listing is not None:
            self._list(self.listing, staged, writes, now)
        elif self.gone:
            staged.apply(missing_again(staged.directory, {}, why=self.gone, now=now), writes, now)
        writes.ordered.append((KEEP, (stored(self.memory), self.instance.id)))
        before, after = self.before.state, self.memory.state
        if before is not after:
            data = {"before": before.value, "state": after.value, "sentence": sentence(self.memory)}
            writes.note_plain(self.instance.name, "observation.turned", data, now)

    def _list(self, listing: Listing, staged: Staged, writes: Writes, now: float) -> None:
        token, self.memory = token_of(staged.directory, self._heard, listing.slots)
        puts = registrations(
            listing.topology,
            listing.facts,
            listing.slots,
            token=token,
            http_port=listing.http_port,
            flags=listing.flags,
        )
        for put in puts:
            before = staged.directory.current
            decision = register(staged.directory, put, now, staged.workspace)
            if decision.refused is not None:
                self.problem = self.problem or decision.refused.sentence
                continue
            staged.apply(decision, writes, now)
            retire_engines_of(before, staged, writes, now, decision.events)
        before = staged.directory.current
        why = f"{self.memory.at} does not list it"
        decision = missing_again(staged.directory, listing.slots, why=why, now=now)
        staged.apply(decision, writes, now)
        retire_engines_of(before, staged, writes, now, decision.events)

    def refuse(self, refused: Refused) -> None:
        self.problem = refused.sentence
        super().refuse(refused)
