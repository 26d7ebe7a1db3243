"""What follows of itself after every change: one table of rules, applied until none has anything to do.

The rules are those of launches in the wire's description: dropped when all rows refuse, complete after one probe
round, promoted when nobody of the old launch who could be harmed still answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .contact import Contact
from .directory import Change, Fence
from .events import LaunchCompleted, LaunchDropped, LaunchPromoted, LaunchSteppedBack, RankLeft
from .launch import PROOF_LASTS, Launch, Row


def settle(change: Change) -> None:
    """Apply the rules of RULES until the directory rests. Each step shrinks or completes a launch, so it ends."""
    for launch in (change.current, change.candidate):
        if launch is not None and (after := launch.not_ahead_of(change.now)) is not launch:
            change.put_back(after)
    current = change.current
    if change.candidate is None and current is not None and _only_fills(current):
        return
    applied = True
    while applied:
        applied = False
        for rule in RULES:
            if rule(change):
                applied = True
                break


def _only_fills(launch: Launch) -> bool:
    """The usual case, a first launch that is not whole yet: no rule has anything to say to it."""
    return bool(launch.rows) and not launch.served and not launch.claims and not launch.full


def seat_claims(change: Change) -> bool:
    """A slot whose owner left goes to the rank that claimed it."""
    for launch in (change.current, change.candidate):
        if launch is not None:
            for slot, row in launch.claims.items():
                if slot not in launch.rows:
                    change.seat(launch, row)
                    return True
    return False


def drop_empty_candidate(change: Change) -> bool:
    candidate = change.candidate
    if candidate is None or candidate.rows:
        return False
    change.candidate = None
    change.events.append(LaunchDropped(candidate.number, "all of its ranks left"))
    return True


def owe_health(change: Change) -> bool:
    """A launch that served and lost a rank: decodes must drop what they cached of it."""
    current = change.current
    if current is None or not current.served or current.complete or (change.debt and change.debt.hold):
        return False
    named = current.missing(3)
    more = current.topology.size - len(current.rows) - len(named)
    missing = ", ".join(map(str, named)) + (f" and {more} more" if more > 0 else "") if named else "a rank"
    change.owe(current.number, hold=True, reason=f"launch {current.number} served and lost {missing}")
    return True


def drop_dead_current(change: Change) -> bool:
    current, candidate = change.current, change.candidate
    if current is None or current.rows:
        return False
    change.current, change.candidate = candidate, None
    change.events.append(LaunchDropped(current.number, "all of its ranks left"))
    if candidate is not None:
        change.events.append(LaunchPromoted(candidate.number, current.number, complete=False, unchecked=False))
    return True


def merge_unserved(change: Change) -> bool:
    """Two halves of one launch: the first PUTs of a restart joined what a dead launch had begun.

    Nobody was ever served from that beginning (or from any row that is left of it), its conflicting rows are gone, and
    both halves agree: they are one launch as far as anybody can tell.
    """
    current, candidate = change.current, change.candidate
    if current is None or candidate is None or not current.rows or _somebody_was_served(change, current):
        return False
    if current.token != candidate.token or not candidate.agrees(current.topology, current.facts):
        return False
    if not current.is_open(change.now) or not all(_fits(row, candidate) for row in current.rows.values()):
        return False
    for row in list(current.rows.values()):
        assert change.current is not None
        change.unseat(change.current, [row.slot], f"went on in launch {candidate.number}")
        # A slot that both have at one address is one rank, which said so itself.
        if row.slot not in candidate.rows:
            candidate = change.seat(candidate, replace(row, adopted=True), current.facts)
    return True


def _somebody_was_served(change: Change, launch: Launch) -> bool:
    """From one of the rows that it has now: those that came after it lost a rank were never shown to a decode."""
    if not launch.served:
        return False
    debt = change.debt
    return debt is None or not debt.hold or any(row.first_at < debt.since for row in launch.rows.values())


def _fits(row: Row, launch: Launch) -> bool:
    """Whether `row` could be a member of `launch`: its slot is free, or its own already, or nobody knows whose it is."""
    holder = launch.rows.get(row.slot)
    return holder is None or holder.address == row.address or row.doubted


def fold_replacement(change: Change) -> bool:
    """One rank of a launch that served was replaced alone, and its PUT was faster than the proof that the old one died.

    Everybody else of the launch has answered since, so the newcomer is theirs: with the slot vacant it would have joined.
    """
    current, candidate = change.current, change.candidate
    if current is None or candidate is None or not current.served or current.complete or not current.rows:
        return False
    if current.token is not None or candidate.token is not None:
        return False
    if not candidate.agrees(current.topology, current.facts) or not all(
        _fits(r, candidate) for r in current.rows.values()
    ):
        return False
    unasked = [row for row in current.rows.values() if (row.probed_at or 0.0) < candidate.put_at]
    change.probe.update(row.address for row in unasked if row.probeable)
    if unasked or not all(row.doubted or (row.answers and row.refused_at is None) for row in current.rows.values()):
        return False
    for row in list(candidate.rows.values()):
        assert change.candidate is not None
        change.unseat(change.candidate, [row.slot], f"went on in launch {current.number}")
        if row.slot not in current.rows or current.rows[row.slot].doubted:
            current = change.seat(current, row, candidate.facts)
    return True


def complete_current(change: Change) -> bool:
    current = change.current
    if current is None or current.complete or not _whole(change, current):
        return False
    change.current = replace(current, complete=True, served=True)
    change.events.append(LaunchCompleted(current.number))
    if change.debt is not None and change.debt.hold:
        change.owe(current.number, hold=False, reason="complete again; decodes may still hold old addresses")
    return True


def promote_candidate(change: Change) -> bool:
    current, candidate = change.current, change.candidate
    if current is None or candidate is None or not _whole(change, candidate):
        return False
    if current.full and _someone_answers(change, current, candidate):
        return False
    promote(change, current, candidate)
    return True


def promote(change: Change, current: Launch, candidate: Launch) -> None:
    """The candidate takes over, atomically; decodes of a launch that served are flushed."""
    others = [row for row in current.rows.values() if row.address not in candidate.at]
    unchecked = any(row.contact is not Contact.REFUSED and not row.greeted for row in others)
    promoted = replace(candidate, complete=True, served=True, unchecked=unchecked)
    replaced: int | None = current.number
    if not current.served and any(row.living for row in others):
        step_back(change, current, candidate)
        replaced = None
    else:
        change.candidate = None
        change.fence = Fence(change.now, {row.address: row.contact for row in others})
    change.current = promoted
    change.events.append(LaunchPromoted(candidate.number, replaced, complete=True, unchecked=unchecked))
    if change.debt is not None or current.served:
        change.owe(candidate.number, hold=False, reason=f"launch {current.number} was replaced")


def step_back(change: Change, current: Launch, candidate: Launch) -> None:
    """A launch that has only begun, with ranks that live and were told OK, waits its turn as the candidate."""
    change.events.append(LaunchSteppedBack(current.number))
    taken = [row.slot for row in current.rows.values() if row.address in candidate.at]
    for slot in taken:
        change.events.append(
            RankLeft(current.number, current.rows[slot], f"its address is in launch {candidate.number}")
        )
    change.candidate = current.without(taken) if taken else current


def _whole(change: Change, launch: Launch) -> bool:
    """Full, and proven by a probe round at that moment. Asks for the round when it is still owed."""
    if not launch.full:
        return False
    if launch.proven:
        return True
    assert launch.full_at is not None
    change.probe.update(row.address for row in launch.rows.values() if _owes_proof(row, launch.full_at))
    return False


def _someone_answers(change: Change, current: Launch, candidate: Launch) -> bool:
    """Whether a rank that the candidate does not contain is alive, on evidence not older than the candidate."""
    assert candidate.full_at is not None
    alive = False
    for row in current.rows.values():
        if row.address in candidate.at:
            continue
        if _owes_proof(row, candidate.full_at):
            change.probe.add(row.address)
            alive = True
        elif row.doubted:
            continue
        elif row.answers or row.refused_at is not None:
            # A first refusal is not yet a verdict.
            alive = True
    return alive


def _owes_proof(row: Row, since: float) -> bool:
    return row.probeable and (row.probed_at is None or row.probed_at < since - PROOF_LASTS)


RULES: tuple[Callable[[Change], bool], ...] = (
    seat_claims,
    drop_empty_candidate,
    owe_health,
    drop_dead_current,
    merge_unserved,
    fold_replacement,
    complete_current,
    promote_candidate,
)
