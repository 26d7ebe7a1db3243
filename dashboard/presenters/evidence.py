"""The evidence ladder of a room as a page shows it: what kind of knowledge each line is, and where the way breaks off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.domain.evidence import Claim, Conclusion, Knowledge, Ladder, Rung, Standing
from controlplane.domain.room_timeline import Moment

from .states import BAD, NONE, OK, WARN


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of knowledge looks: never in a colour of a state."""

    word: str
    css: str
    icon: str
    by: str = ""


KINDS = {
    Knowledge.OBSERVED: Kind("observed", "observed", "eye", "by us"),
    Knowledge.REPORTED: Kind("reported", "reported", "said", "by a worker"),
    Knowledge.INFERRED: Kind("inferred", "inferred", "infer", "from other facts"),
    Knowledge.NOT_OBSERVED: Kind("not observed", "notobs", "eyeoff"),
}
LEGEND = tuple(KINDS[one] for one in (Knowledge.OBSERVED, Knowledge.REPORTED, Knowledge.INFERRED))
UNSEEN = KINDS[Knowledge.NOT_OBSERVED]


@dataclass(frozen=True, slots=True)
class ClaimView:
    kind: Kind
    sentence: str
    who: str
    at: float | None
    trouble: bool


@dataclass(frozen=True, slots=True)
class RungView:
    """`state` is a word of the table of states, empty for what nobody saw. `cut`: the line below it is dashed."""

    number: int
    name: str
    tone: str
    icon: str
    state: str
    at: float | None
    claims: tuple[ClaimView, ...]
    would_show: str
    cut: bool


def rung_views(ladder: Ladder) -> list[RungView]:
    """Solid while proven, dashed from the first gap on."""
    views, proven = [], True
    for number, rung in enumerate(ladder.rungs, 1):
        proven = proven and rung.standing is Standing.PASSED
        following = ladder.rungs[number] if number < len(ladder.rungs) else None
        cut = not proven or following is None or following.standing is not Standing.PASSED
        views.append(_rung(number, rung, cut=cut))
    return views


def _rung(number: int, rung: Rung, *, cut: bool) -> RungView:
    doubtful = any(claim.trouble for claim in rung.claims)
    tone, icon, state = LOOKS[rung.standing]
    if rung.standing is Standing.PASSED and doubtful:
        tone, icon, state = WARN, "warn", "in_doubt"
    seen = [claim.at for claim in rung.claims if claim.knowledge is not Knowledge.INFERRED and claim.at is not None]
    return RungView(
        number,
        rung.name,
        tone,
        icon,
        state,
        max(seen, default=None),
        tuple(map(_claim, rung.claims)),
        rung.would_show,
        cut,
    )


LOOKS = {
    Standing.PASSED: (OK, "ok", "passed"),
    Standing.FAILED: (BAD, "x", "failed"),
    Standing.EXPIRED: (NONE, "clock", "expired"),
    Standing.NOT_OBSERVED: (NONE, "", ""),
}


def _claim(claim: Claim) -> ClaimView:
    return ClaimView(KINDS[claim.knowledge], claim.sentence, claim.who, claim.at, claim.trouble)


TONES = {
    "failed": BAD,
    "trouble": WARN,
    "stops": NONE,
    "gaps": NONE,
    "consumed": OK,
    "expired": NONE,
    "unbound": NONE,
}
WORDS = {
    "failed": "failed",
    "trouble": "in_doubt",
    "stops": "bound",
    "gaps": "reported",
    "consumed": "consumed",
    "expired": "expired",
    "unbound": "unbound",
}


@dataclass(frozen=True, slots=True)
class MomentView:
    """`since`: seconds after the moment above it that is known, empty for the first one."""

    name: str
    kind: Kind
    at: float | None
    who: str
    sentence: str
    since: str


def moment_views(moments: Sequence[Moment]) -> list[MomentView]:
    views, before = [], None
    for one in moments:
        since = "" if before is None or one.at is None else f"{one.at - before:+.3f} s"
        views.append(MomentView(one.name, KINDS[one.knowledge], one.at, one.who, one.sentence, since))
        before = one.at if one.at is not None else before
    return views


def tone_of(conclusion: Conclusion) -> str:
    return TONES[conclusion.kind]


def word_of(conclusion: Conclusion, *, live: bool = True) -> str:
    """The state of the room in one word of the table of states; one that nobody holds is not bound, however far it came."""
    word = WORDS[conclusion.kind]
    return "reported" if word == "bound" and not live else word


def proven_text(ladder: Ladder) -> str:
    """
    >>> proven_text(Ladder((), Conclusion("unbound", "", "")))
    '0 of 0 rungs proven'
    """
    return f"{ladder.proven} of {len(ladder.rungs)} rungs proven"


def contacts_text(contacts: Sequence[str]) -> str:
    """How many ranks answer, for the foot of their list.

    >>> contacts_text(["up", "up", "silent"])
    '2 of 3 answer'
    """
    return f"{sum(contact == 'up' for contact in contacts)} of {len(contacts)} answer"


ENDS = ("consumed", "failed")
AGAIN_SECONDS = 2
ON_ITS_WAY_SECONDS = 120.0


def again_in(ladder: Ladder, now: float) -> int:
    """Seconds until the page asks again, 0 for as seldom as every page does: reports are not in the ledger, so nobody tells
    of the next rung of a room that is on its way.

    >>> said = Claim(Knowledge.REPORTED, "", "d/1", 100.0)
    >>> ladder = Ladder((Rung("resolved", Standing.PASSED, (said,), ""),), Conclusion("stops", "", ""))
    >>> again_in(ladder, 110.0), again_in(ladder, 300.0)
    (2, 0)
    """
    if ladder.conclusion.kind in ENDS:
        return 0
    seen = [claim.at for rung in ladder.rungs for claim in rung.claims if claim.at is not None]
    return AGAIN_SECONDS if seen and now - max(seen) < ON_ITS_WAY_SECONDS else 0
