"""What probes saw, applied to a directory: rows leave, launches complete, late PUTs turn out to be alive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .contact import Contact
from .directory import Change, Decision, Directory
from .events import RankLeft, RankProbed
from .launch import Address, Launch, Row
from .registration import place
from .settling import settle


def is_news(directory: Directory, address: Address, contact: Contact) -> bool:
    """Whether this answer can change anything. In a fleet at rest nearly none can, and nobody need decide about it."""
    current = directory.current
    if current is None or not current.complete or directory.candidate is not None or current.claims:
        return True
    if directory.fence is not None and address in directory.fence.contacts:
        return True
    slot = current.at.get(address)
    return slot is not None and not _repeats(current.rows[slot], contact)


def observe(directory: Directory, verdicts: Mapping[Address, Contact], now: float) -> Decision:
    """Apply one round of verdicts, keyed by address. Addresses that nobody holds any more are ignored."""
    change = Change(directory, now)
    for launch in list(directory.launches()):
        _observe_launch(change, launch, verdicts)
    _observe_fence(change, verdicts)
    settle(change)
    return change.done()


def _observe_launch(change: Change, launch: Launch, verdicts: Mapping[Address, Contact]) -> None:
    rows = dict(launch.rows)
    gone: list[Row] = []
    # When a launch proved itself matters to no one once it is complete and nobody challenges it.
    at_rest = launch.complete and change.candidate is None
    moved = False
    for address, contact in verdicts.items():
        slot = launch.at.get(address)
        if slot is None:
            continue
        before = rows[slot]
        if at_rest and _repeats(before, contact):
            continue
        moved = True
        row, leaves = before.observed(contact, change.now)
        if leaves and not _matters(launch, before):
            leaves = False
        if leaves:
            gone.append(row)
            continue
        if row.refused_at is not None and row.contact is not Contact.REFUSED:
            change.again.add(address)
        if row.contact is not before.contact or row.adopted != before.adopted:
            change.events.append(RankProbed(launch.number, row))
        elif before.probed_at is None and row.probed_at is not None:
            # Restored from the tables, and now verified.
            change.seen.append((launch.number, row))
        rows[slot] = row
    if not moved and not launch.claims:
        return
    claims = {
        slot: (row.observed(verdicts[row.address], change.now)[0] if row.address in verdicts else row)
        for slot, row in launch.claims.items()
    }
    probed = replace(launch, rows=rows, claims=claims)
    change.put_back(probed)
    if gone:
        for row in gone:
            change.events.append(RankLeft(launch.number, row, _why(row)))
        change.put_back(probed.without([row.slot for row in gone]))


def _repeats(row: Row, contact: Contact) -> bool:
    return contact is row.contact and row.refused_at is None and row.probed_at is not None


def _matters(launch: Launch, row: Row) -> bool:
    """A rank of a serving launch that was never reached is not proven dead by a refusal: whoever refuses may sit between.
    A connect that was accepted once, greeting or not, proves that we do reach its host."""
    return row.greeted or not launch.complete or row.contact in (Contact.SILENT, Contact.STRANGER)


def _why(row: Row) -> str:
    if row.greeted:
        return f"greeted before, and {row.ip}:{row.port} refuses connections now"
    return f"nobody listens at {row.ip}:{row.port}: the connection was refused twice"


def _observe_fence(change: Change, verdicts: Mapping[Address, Contact]) -> None:
    fence = change.fence
    if fence is None:
        return
    known = {a: verdicts.get(a, c) for a, c in fence.contacts.items()}
    risen = [put for a, put in fence.late.items() if verdicts.get(a) is Contact.UP]
    late = {a: put for a, put in fence.late.items() if verdicts.get(a) is not Contact.UP}
    if known != fence.contacts or risen:
        change.fence = replace(fence, contacts=known, late=late)
    for put in risen:
        place(change, put, fenced=False)
