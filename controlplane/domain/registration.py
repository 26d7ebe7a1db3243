"""Which launch a `PUT /route` belongs to. Pure; a reply never waits for a probe."""

from __future__ import annotations

from dataclasses import replace

from .contact import Contact
from .directory import FENCE_SECONDS, Change, Decision, Directory, Registration
from .errors import Refused
from .events import LaunchDropped, LaunchFactsFilled, LaunchOpened, RankCameLate, RankRegistered
from .launch import JOIN_WINDOW, Launch, Row, Workspace
from .neighbours import part, preferred
from .settling import settle

CONFLICT_WINDOW = 60.0
"""Seconds for which a rank that registered, but does not provably answer, still speaks for its launch."""


def register(directory: Directory, put: Registration, now: float, workspace: Workspace | None = None) -> Decision:
    """Decide one registration: refresh, join, claim, open a candidate, note as late, or refuse.

    `Decision.refused` (409) names the field, both values and both slots; everything else is answered `OK`.
    """
    change = Change(directory, now, workspace)
    place(change, put)
    if change.events:
        settle(change)
    return change.done()


def place(change: Change, put: Registration, *, fenced: bool = True) -> None:
    if _fills_up(change, put):
        return
    if put.home and not _is_known(change, put):
        change.doubt(put.address)
    if put.token is not None:
        own = _launch_with_token(change, put.token)
        if own is not None:
            _join_own(change, own, put)
            return
    elif _refresh(change, put):
        return
    if fenced and _late(change, put):
        return
    if put.token is None and _join_open(change, put):
        return
    _open(change, put)


def _fills_up(change: Change, put: Registration) -> bool:
    """The usual case first: the next rank of the only launch, which has begun and has room. All rules below agree."""
    current = change.current
    if current is None or change.candidate is not None or change.fence is not None or current.complete:
        return False
    if current.token is not None or put.token is not None or put.slot in current.rows or put.address in current.at:
        return False
    if not current.agrees(put.topology, put.facts) or not current.is_open(change.now):
        return False
    change.seat(current, _row(put, change.now), put.facts)
    return True


def _is_known(change: Change, put: Registration) -> bool:
    """Whether each launch that has somebody at this address has this very rank there."""
    for launch in (change.current, change.candidate):
        slot = launch.at.get(put.address) if launch is not None else None
        if launch is None or slot is None:
            continue
        if slot != put.slot or launch.token != put.token or not launch.agrees(put.topology, put.facts):
            return False
    return True


def _launch_with_token(change: Change, token: str) -> Launch | None:
    for launch in (change.candidate, change.current):
        if launch is not None and launch.token == token:
            return launch
    return None


def _join_own(change: Change, launch: Launch, put: Registration) -> None:
    """The token says which launch is meant; it does not say that a living owner may be displaced."""
    if launch.topology != put.topology:
        change.refused = Refused(
            f"launch {launch.number} has the topology {launch.topology}, but {put.slot} sent {put.topology}"
            " with the same token",
            code="conflict",
        )
        return
    disagreement = launch.facts.disagreement(put.facts)
    if disagreement is not None and any(row.slot != put.slot for row in launch.rows.values()):
        change.refused = _conflict(launch, put, disagreement, next(iter(launch.rows.values())))
        change.probe.update(row.address for row in launch.rows.values() if row.probeable)
        return
    if disagreement is not None:
        launch = replace(launch, facts=put.facts)
        change.put_back(launch)
        change.events.append(LaunchFactsFilled(launch.number, launch.facts))
    owner = launch.rows.get(put.slot)
    if owner is None:
        change.seat(launch, _row(put, change.now), put.facts)
    elif owner.address == put.address:
        _see_again(change, launch, owner, put)
    elif owner.living:
        claim = _row(put, change.now)
        if launch.claims.get(put.slot, owner).address != put.address:
            change.claim(launch, claim)
        change.probe.add(owner.address)
    else:
        change.seat(launch, _row(put, change.now), put.facts)


def _refresh(change: Change, put: Registration) -> bool:
    """A PUT that repeats a row refreshes it, and counts for the candidate it agrees with too."""
    found = False
    for launch in (change.current, change.candidate):
        # Whoever sends a token sends it always.
        if launch is None or launch.token is not None or not launch.agrees(put.topology, put.facts):
            continue
        row = launch.rows.get(put.slot)
        if row is not None and row.address == put.address:
            _see_again(change, launch, row, put)
            found = True
        elif found and row is None:
            change.seat(launch, _row(put, change.now), put.facts)
    return found


def _see_again(change: Change, launch: Launch, row: Row, put: Registration) -> None:
    again = row.seen(change.now, put.http_port)
    refreshed = launch.refreshed(again, change.workspace, put_at=change.now)
    if again.http_port != row.http_port or row.adopted:
        # Part of what readers show and of the topology answer, which is told apart by the address table's identity.
        refreshed = replace(refreshed, at=dict(launch.at))
        change.events.append(RankRegistered(launch.number, again, row.address))
    change.put_back(refreshed)
    change.seen.append((launch.number, again))
    if again.pending:
        change.probe.add(again.address)


def _late(change: Change, put: Registration) -> bool:
    """A PUT of a launch that was just replaced, at an address of its that refuses: its rank is dead.

    Kernels reuse ports, so the PUT is kept and its address asked once more: if somebody answers, it was not late.
    """
    fence = change.fence
    if fence is None or change.now - fence.at > FENCE_SECONDS or change.current is None:
        return False
    if fence.contacts.get(put.address) is not Contact.REFUSED:
        return False
    change.fence = replace(fence, late={**fence.late, put.address: put})
    change.events.append(RankCameLate(change.current.number, put.slot, put.ip, put.port))
    change.probe.add(put.address)
    return True


def _join_open(change: Change, put: Registration) -> bool:
    """Join the candidate, else an incomplete current launch; refuse what contradicts a living one."""
    for launch in preferred(change, put):
        if launch is None or launch.complete or launch.token is not None:
            continue
        if launch.topology != put.topology or not launch.is_open(change.now):
            continue
        disagreement = launch.facts.disagreement(put.facts)
        if disagreement is not None:
            rival = _rival(launch, put, change.now)
            if rival is not None:
                change.refused = _conflict(launch, put, disagreement, rival)
                change.probe.update(row.address for row in launch.rows.values() if row.probeable)
                return True
        elif _may_sit(launch, put):
            change.seat(launch, _row(put, change.now), put.facts)
            return True
    own = part(change, put)
    if own is not None:
        change.seat(own, _row(put, change.now), put.facts)
    return own is not None


def _may_sit(launch: Launch, put: Registration) -> bool:
    holder = launch.rows.get(put.slot)
    if holder is None or holder.address == put.address or holder.adopted:
        return True
    # Nobody was ever reached there: a guess against a guess, and nobody was served from it. The last word counts.
    return not launch.served and not holder.living and not holder.greeted


def _rival(launch: Launch, put: Registration, now: float) -> Row | None:
    for row in launch.rows.values():
        if row.slot != put.slot and (row.answers or now - row.seen_at <= CONFLICT_WINDOW):
            return row
    return None


def _open(change: Change, put: Registration) -> None:
    older = change.candidate
    if older is not None:
        # Kernels reuse ports: whoever registers from an address of the older candidate speaks against its rank there.
        if any(row.living and row.address != put.address for row in older.rows.values()):
            change.refused = Refused(
                f"{put.slot} at {put.ip}:{put.port} fits neither launch of {change.before.name}{_seated(change, put)}, and"
                f" the ranks of launch {older.number} ({len(older.rows)} of {older.topology.size}) answer: end those and try"
                " again, or give this engine a name of its own",
                code="conflict",
            )
            change.probe.update(row.address for row in older.rows.values() if row.probeable)
            return
        change.events.append(LaunchDropped(older.number, "a newer launch began and none of its ranks answers"))
        change.candidate = None
    launch = Launch(change.next_number, put.token, put.topology, put.facts, {}, change.now, change.now)
    change.next_number += 1
    role = "current" if change.current is None else "candidate"
    if change.current is None:
        change.current = launch
    else:
        change.candidate = launch
        # Who is in the way decides what happens next, so ask.
        change.probe.update(row.address for row in change.current.rows.values() if row.probeable)
    change.events.append(LaunchOpened(launch.number, launch, role))
    launch = change.seat(launch, _row(put, change.now), put.facts)
    if role == "candidate":
        _adopt(change, launch)


def _seated(change: Change, put: Registration) -> str:
    """Who has the slot that a newcomer asks for, as far as it is the same slot."""
    launches = [one for one in (change.current, change.candidate) if one is not None and one.topology == put.topology]
    rows = [(one.number, one.rows[put.slot]) for one in launches if put.slot in one.rows]
    said = [f"launch {number} has it at {row.ip}:{row.port}" for number, row in rows]
    return f" ({', '.join(said)})" if said else ""


def _adopt(change: Change, launch: Launch) -> None:
    """Rows of the current launch that were PUT again lately may belong to this new one."""
    current = change.current
    if current is None or current.token != launch.token or not launch.agrees(current.topology, current.facts):
        return
    for row in current.rows.values():
        lately = row.again_at is not None and change.now - row.again_at <= JOIN_WINDOW
        if lately and row.slot not in launch.rows and row.address not in launch.at:
            launch = change.seat(launch, replace(row, adopted=True), current.facts)


def _row(put: Registration, now: float) -> Row:
    return Row(put.slot, put.ip, put.port, put.http_port, now, now, flags=put.flags)


def _conflict(launch: Launch, put: Registration, disagreement: tuple[str, object, object], rival: Row) -> Refused:
    field, theirs, mine = disagreement
    return Refused(
        f"{field} differs within launch {launch.number}: {put.slot} sent {mine!r}, {rival.slot} has {theirs!r}",
        code="conflict",
    )
