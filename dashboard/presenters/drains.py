"""A drain as its page says it: the verdict in short, what blocks with the next step, and how far it is, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.domain.obstacles import GATEWAY, ROUTER, Obstacle
from controlplane.queries.draining import Detail, SelectorRow
from controlplane.queries.drains import DrainRow, verdict
from controlplane.queries.gateways import GatewayRow
from controlplane.queries.wording import counted, listing

SHORT: Mapping[str, str] = {
    "waiting": "Not drained yet.",
    "empty": "Empty, not proven yet.",
    "overdue": "Past its deadline, and not drained.",
    "forced": "Ended by force: not drained.",
    "cancelled": "Cancelled.",
}

WORDS: Mapping[str, str] = {
    "no_selector": "unknown",
    "silent_gateway": "silent",
    "behind": "behind",
    "router_away": "away",
    "router_whole": "blocked",
    "router_holds": "holds_it",
    "router_unseen": "unknown",
    "restored": "waiting",
    "restarted": "waiting",
    "no_group": "conflict",
    "no_launch": "missing",
    "no_ranks": "unknown",
    "rooms": "rooms",
    "late": "late",
    "busy": "busy",
    "silent_witness": "silent",
    "vague": "unknown",
    "no_witness": "unknown",
    "proof": "waiting",
    "unknown": "unknown",
}
"""The state that stands before each kind of obstacle."""

LOUD = frozenset({"away", "conflict"})
GUESSED = frozenset({"unknown", "silent", "away", "missing"})
"""Words for what nobody can say, which blocks as much as what is known to be there."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """`head`, `name`, `tail` are the sentence; `name` a gateway or router (`about`), blank when it is about nobody.

    `at`: when that was last heard from; `until`: when it ends by itself.
    """

    word: str
    head: str
    next: str
    about: str = ""
    name: str = ""
    tail: str = ""
    at: float | None = None
    until: float | None = None
    silent: GatewayRow | None = None
    """Set for a gateway that may be removed, so that nothing waits for it any more."""

    @property
    def tone(self) -> str:
        return "bad" if self.word in LOUD else "warn"


@dataclass(frozen=True, slots=True)
class Step:
    """One rung. `cut`: nothing leads on from here yet. `at`: since when it is so."""

    tone: str
    icon: str
    title: str
    more: str = ""
    said: str = ""
    at: float | None = None
    revision: int | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A gateway or router in the table of acknowledgements. `ahead`: its revision against the one that is needed."""

    kind: str
    name: str
    word: str
    acknowledged: int | None
    ahead: int | None
    seen_at: float | None
    open_rooms: int | None
    open_at: float | None
    stopped: bool

    @property
    def signed(self) -> str:
        """
        >>> Choice("gateway", "g", "behind", 3, -9, None, None, None, False).signed
        '−9'
        """
        return "" if self.ahead is None else f"{self.ahead:+d}".replace("-", "−")


def short(row: DrainRow) -> str:
    if row.progress != "drained":
        return SHORT[row.progress]
    return "Drained." if row.safe_to_delete or row.ended else "Drained, but not what runs now."


def why(row: DrainRow) -> str:
    """The sentence behind the short one."""
    if row.ended:
        return f"It ended: {row.ended_reason}."
    if row.blockers:
        said = _sentence("; ".join(row.blockers[:2]))
        more = f" {counted(len(row.blockers) - 2, 'more thing')} in the way." if len(row.blockers) > 2 else ""
        guess = any(WORDS[one.kind] in GUESSED for one in row.obstacles)
        return f"{said}{more}{' What nobody can say blocks.' if guess else ''}"
    if row.checked_at is None:
        return "Nobody has looked at it yet, so nothing is known of it."
    return _sentence(f"{row.what} is {verdict(row)}")


def observed(row: DrainRow) -> tuple[str, str]:
    """The state that is seen, and what is said behind its word."""
    if not row.ended and row.blockers and row.progress in ("waiting", "empty"):
        return "blocked", f"by {len(row.blockers)}"
    return row.progress, f", blocked by {len(row.blockers)}" if row.blockers and not row.ended else ""


def blockers(row: DrainRow, detail: Detail, gateways: Sequence[GatewayRow] = ()) -> list[Blocker]:
    """`gateways`: those that are silent now."""
    silent = {one.name: one for one in gateways}
    return [_blocker(one, row, detail, silent) for one in row.obstacles]


def _blocker(one: Obstacle, row: DrainRow, detail: Detail, silent: Mapping[str, GatewayRow]) -> Blocker:
    who = next((it for it in detail.selectors if (it.kind, it.name) == (one.about, one.name)), None)
    until = {"rooms": row.rooms.until, "late": row.rooms.late_until}.get(one.kind)
    sentence = one.sentence[:1].upper() + one.sentence[1:]
    head, name, tail = sentence.partition(one.name) if one.name else (sentence, "", "")
    at = who.seen_at if who is not None else None
    gone = silent.get(name) if one.kind == "silent_gateway" else None
    return Blocker(WORDS[one.kind], head, one.next, one.about, name, tail, at, until, gone)


def choices(row: DrainRow, detail: Detail) -> list[Choice]:
    return [_choice(one, row) for one in detail.selectors]


def _choice(one: SelectorRow, row: DrainRow) -> Choice:
    word = "let_go" if one.kind == ROUTER else "current"
    if one.against is not None:
        word = WORDS[one.against.kind]
    ahead = one.acknowledged - row.cordon_revision if one.acknowledged is not None else None
    return Choice(
        one.kind, one.name, word, one.acknowledged, ahead, one.seen_at, one.open_rooms, one.open_at, one.stopped
    )


def steps(row: DrainRow, detail: Detail) -> list[Step]:
    what = row.instance if row.group is None else f"dp{row.group}"
    cordoned = f"nothing new to {what}" if row.cordon_revision else ""
    found = [Step("ok", "ok", "Cordoned", "", cordoned, row.started_at, row.cordon_revision or None)]
    if row.ended and row.progress != "drained":
        ended = f"{row.ended_reason}. safe_to_delete: no"
        icon, tone = ("bolt", "bad") if row.progress == "forced" else ("undo", "none")
        return [*found, Step(tone, icon, row.progress.capitalize(), "", ended, row.ended_at)]
    return [*found, _stopped(row, detail), _emptied(row, detail), _drained(row, what)]


def _stopped(row: DrainRow, detail: Detail) -> Step:
    kinds = {one.kind for one in detail.selectors}
    title = {frozenset({GATEWAY}): "Gateways know", frozenset({ROUTER}): "Routers let go"}.get(
        frozenset(kinds), "Nobody sends to it any more"
    )
    done = sum(one.stopped for one in detail.selectors)
    more = f"{done} of {len(detail.selectors)}" if detail.selectors else ""
    if row.stopped_at is not None:
        return Step("ok", "ok", title, more, "", row.stopped_at)
    if row.ended:
        return Step("ok", "ok", title)
    names = [one.name for one in detail.selectors if not one.stopped]
    waits = f"waiting for {listing(names, limit=4)}" if names else "waiting for the next look"
    return Step("warn", "half", title, more, waits if detail.selectors else "nobody who sends is known here", cut=True)


def _emptied(row: DrainRow, detail: Detail) -> Step:
    if row.empty_at is not None or row.progress == "drained":
        return Step("ok", "ok", "Nothing is open", "", "", row.empty_at)
    first, last = _ends(row)
    ended = f"{first - last} of {first}" if first and last is not None and last <= first else ""
    if last:
        return Step("warn", "half", "Requests end", ended, f"waiting for {last}", cut=True)
    if row.rooms.until or row.rooms.late_until:
        return Step("warn", "half", "Requests end", ended, "waiting for rooms that are bound to it", cut=True)
    silent = last is None
    return Step("none", "", "Requests end", "", "nobody says how much is open" if silent else "", cut=True)


def _drained(row: DrainRow, what: str) -> Step:
    safe = "yes" if row.safe_to_delete else "no"
    if row.progress == "drained":
        return Step("want", "drained", "Drained", "", f"safe_to_delete: {safe}", row.ended_at or row.empty_at)
    launch = f"launch {row.launch} of " if row.launch is not None else ""
    return Step("none", "", "Drained", "", f"then {launch}{what} is safe to delete. safe_to_delete: {safe}")


def _ends(row: DrainRow) -> tuple[int | None, int | None]:
    """What was open when it began and what is open by the last look."""
    points = row.trail.points
    return (points[0].open, points[-1].open) if points else (None, None)


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:].rstrip('.')}."


def counts_text(counts: Mapping[str, int]) -> str:
    """What is not zero by name, and how much else was told.

    >>> counts_text({"running": 0, "inflight": 2}), counts_text({"running": 0, "waiting": 0}), counts_text({})
    ('inflight 2; 1 other is 0', 'running, waiting are 0', '')
    """
    zero = [name for name, count in counts.items() if not count]
    held = [f"{name} {count:,}" for name, count in counts.items() if count]
    if not held:
        return f"{listing(zero, limit=5)} {'is' if len(zero) == 1 else 'are'} 0" if zero else ""
    others = f"; {len(zero)} {'other is' if len(zero) == 1 else 'others are'} 0" if zero else ""
    return f"{', '.join(held)}{others}"


def waits(rows: Sequence[DrainRow]) -> Iterator[tuple[DrainRow, str, str, str]]:
    """Rows of the list: each with the state that is seen, what is said behind it, and what it waits for first."""
    for row in rows:
        word, more = observed(row)
        first = f"{row.blockers[0]}" if row.blockers else ("" if row.ended or row.checked_at else "not looked at yet")
        yield row, word, more, first
