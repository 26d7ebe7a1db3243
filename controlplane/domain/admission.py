"""Who may still send requests to what is being drained: gateways that acknowledge a revision, routers we drive.

Blockers are sentences by key. The key says what blocks, and is what is compared; counts and ages that change by
themselves stand in neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Blockers = dict[str, str]

SET_BACK_SECONDS = 60.0
"""Two of our hosts never differ by so much: what was dated later than this was dated before our clock was set back."""

ROUTER_SILENT_SECONDS = 30.0
"""A router that was not looked at for so long may hold anything."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """The request to stop: the revision that said so, in which ledger; `group` None is the whole instance."""

    ledger_id: str
    revision: int
    at: float
    group: int | None = None

    def holds_in(self, ledger_id: str, head: int) -> bool:
        """False after a restored backup or a failover: what was acknowledged then is not what is true now."""
        return self.ledger_id == ledger_id and self.revision <= head


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway of ours, and how far it has applied the ledger."""

    name: str
    seen_at: float
    lease_seconds: float
    ledger_id: str = ""
    revision: int = 0
    joined_at: float = 0.0

    def is_silent(self, now: float) -> bool:
        return now - self.seen_at > self.lease_seconds


@dataclass(frozen=True, slots=True)
class Router:
    """A real router that was given this instance; `present`: it holds it as a worker, as last seen."""

    name: str
    present: bool
    answers: bool
    checked_at: float | None


@dataclass(frozen=True, slots=True)
class Selectors:
    """Everybody known here who chooses workers, as of one head of one ledger."""

    ledger_id: str
    head: int
    gateways: Sequence[Gateway] = ()
    routers: Sequence[Router] = ()

    @property
    def known(self) -> bool:
        return bool(self.gateways or self.routers)

    def have_stood(self, since: float, now: float) -> bool:
        """Whether no gateway has started anew since: until it had read the ledger, it may have admitted something."""
        return all(gateway.joined_at < since or gateway.joined_at > now + SET_BACK_SECONDS for gateway in self.gateways)


@dataclass(frozen=True, slots=True)
class Admission:
    """`admitting`: who demonstrably has not stopped. `unsure`: of whom nobody can say."""

    admitting: Blockers = field(default_factory=dict)
    unsure: Blockers = field(default_factory=dict)
    waiting_for: tuple[str, ...] = ()

    @property
    def stopped(self) -> bool:
        return not self.admitting and not self.unsure


def look(cordon: Cordon, selectors: Selectors, *, now: float) -> Admission:
    """Who has stopped. A gateway that joins while the drain runs is asked like the others: it must acknowledge too."""
    if not selectors.known:
        return Admission(unsure={"nobody": NOBODY})
    admitting: Blockers = {}
    unsure: Blockers = {}
    names = []
    for gateway in selectors.gateways:
        if gateway.is_silent(now):
            lease = f"{gateway.lease_seconds:g} s"
            unsure[f"silent {gateway.name}"] = (
                f"gateway {gateway.name} is silent for longer than its lease of {lease}: it may still admit"
            )
        elif not _acknowledged(gateway, cordon, selectors):
            admitting[f"acknowledge {gateway.name}"] = (
                f"gateway {gateway.name} has not acknowledged the cordon (revision {cordon.revision})"
            )
        else:
            continue
        names.append(f"gateway {gateway.name}")
    for router in selectors.routers:
        key, sentence = _of_router(router, cordon, now)
        if key:
            (admitting if router.present and router.answers else unsure)[f"{key} {router.name}"] = sentence
            names.append(f"router {router.name}")
    return Admission(admitting, unsure, tuple(names))


NOBODY = (
    "cannot stop admission: no gateway or router that chooses workers is known here; stop whoever sends requests,"
    " and force the drain when you know that they have ended"
)


def _acknowledged(gateway: Gateway, cordon: Cordon, selectors: Selectors) -> bool:
    # A revision beyond the head belongs to a history that a restored backup undid.
    return gateway.ledger_id == selectors.ledger_id and cordon.revision <= gateway.revision <= selectors.head


def _of_router(router: Router, cordon: Cordon, now: float) -> tuple[str, str]:
    """Absence must have been seen since the drain began: a worker may have been on its way in before."""
    if not router.answers:
        return "away", f"router {router.name} does not answer: it may still send"
    if router.present and cordon.group is not None:
        return "whole", (
            f"router {router.name} sends to every DP group of an instance and cannot spare dp{cordon.group}:"
            " drain the whole instance, or take it out of the router"
        )
    if router.present:
        return "present", f"router {router.name} still has it among its workers"
    earliest = max(cordon.at, now - ROUTER_SILENT_SECONDS)
    if router.checked_at is None or not earliest <= router.checked_at <= now + SET_BACK_SECONDS:
        return "unseen", f"router {router.name} was not looked at since it was asked to stop: it may still send"
    return "", ""
