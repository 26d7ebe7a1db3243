"""The first questions about an instance: do its workers find us, are they all there, do they answer. Pure.

Each judge gives one answer, or None where the question does not arise for such an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .inquiry_facts import Case, Seated, Told
from .questions import Answer, Verdict

YES, NO, UNSEEN = Verdict.YES, Verdict.NO, Verdict.NOT_OBSERVED
NAMED = 4

Judge = Callable[[Case], Answer | None]


def named(names: Sequence[str], *, total: int | None = None) -> str:
    """
    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c, d and 1 more')
    """
    more = (len(names) if total is None else total) - min(len(names), NAMED)
    return f"{', '.join(names[:NAMED])}{f' and {more} more' if more > 0 else ''}"


def directory(case: Case) -> Answer:
    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        return Answer("directory", "Is the directory up?", verdict, code, sentence, case.leading.heard_at, next=next_)

    if case.leading.leads:
        return say(YES, "leads", f"{case.leading.holder} leads and answers")
    start = "Start `manage.py bootstrap`, or look in its log why it does not lead."
    if not case.leading.holder:
        return say(NO, "never_led", "No bootstrap process has ever led here, so nobody answers", start)
    said = f"No bootstrap process leads, so nobody answers; {case.leading.holder} was the last"
    return say(NO, "nobody_leads", said, start)


def port(case: Case) -> Answer | None:
    seen = case.port
    if case.role != "prefill":
        return None

    def say(verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "") -> Answer:
        question = "Does the right server hold its bootstrap port?"
        return Answer("port", question, verdict, code, sentence, at, next=next_)

    if seen.failed is not None:
        said = f"Port {seen.own} of {case.name} cannot be opened: {seen.failed}"
        find = f"Find who holds it: `ss -ltnp 'sport = :{seen.own}'`; end that, or give {case.name} another port with"
        return say(NO, "taken", said, seen.told_at, f"{find} `manage.py instances edit {case.name} --own-port PORT`.")
    if seen.observed in OBSERVED:
        verdict, code, said, advice = OBSERVED[seen.observed]
        return say(verdict, code, said.format(seen.observed_url), seen.observed_at, advice.format(seen.observed_url))
    if seen.holder in ("stranger", *HOLDERS) and case.engine is not None and not case.engine.well:
        # It is asked when the engine says where it is, and an engine that does not answer says nothing.
        said = f"Who holds {seen.held} was last seen when its engine was last well"
        return replace(say(UNSEEN, "unasked", said, seen.held_at), old=True)
    if seen.holder == "stranger":
        said = f"Somebody answers at {seen.held}, where decodes look for it, and not as a bootstrap server does"
        advice = (
            f"Look on that host who holds the port: an engine whose port is taken goes on without it ({seen.held})."
        )
        return say(NO, "stranger", said, seen.held_at, advice)
    if seen.holder in HOLDERS:
        return say(YES, seen.holder, f"{HOLDERS[seen.holder]} answers at {seen.held}", seen.held_at)
    if seen.own is not None and case.leading.leads:
        return say(YES, "own", f"The bootstrap process listens on port {seen.own} for it alone", seen.told_at)
    if seen.observed:
        return say(UNSEEN, "unasked", f"{seen.observed_url or 'Its own bootstrap server'} has not answered yet")
    if case.leading.leads:
        return say(YES, "shared", "The leading bootstrap process holds the port that all share", case.leading.heard_at)
    return say(UNSEEN, "unasked", "Nobody leads, so nobody of ours holds a port")


HOLDERS = {"bootstrap": "A bootstrap server of an engine", "ours": "A directory or relay of ours"}
OBSERVED: dict[str, tuple[Verdict, str, str, str]] = {
    "listed": (YES, "engine", "The engine's own bootstrap server answers at {0}", ""),
    "filling": (YES, "engine", "The engine's own bootstrap server answers at {0}, and waits for ranks", ""),
    "strange": (
        NO,
        "stranger",
        "Whoever answers at {0} does not answer as a bootstrap server does",
        "Look who holds that port on its host: an engine whose port is taken goes on without its own server.",
    ),
    "refused": (
        NO,
        "nobody",
        "Nobody listens at {0}, where its engine's bootstrap server should be",
        "Start the engine, or correct the address that is observed.",
    ),
    "silent": (
        NO,
        "silent",
        "{0} does not answer any more",
        "Look whether its host can be reached from here, and whether the engine hangs.",
    ),
}
"""By the observer's word (domain.observing.State)."""


def tenant(case: Case) -> Answer | None:
    names = case.names

    def say(verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "") -> Answer:
        return Answer("tenant", "Is it clear who is meant?", verdict, code, sentence, at, next=next_)

    others = named(names.sharing, total=max(names.total, len(names.sharing)))
    if names.twins:
        said = f"{case.name} and {named(names.twins)} are said to be at one address, {names.twin_of}"
        return say(
            NO,
            "twins",
            said,
            next_=f"Give each its own address: `manage.py instances edit {case.name}`, or retire one.",
        )
    if case.role == "decode":
        return None
    if not names.shares:
        return say(YES, "own", f"Whoever asks at its own address means {case.name}")
    if not names.sharing:
        return say(YES, "only", f"{case.name} is the only one at the shared listener")
    if case.roster.registered or case.roster.gone:
        return say(YES, "named", f"It shares the listener with {others}, and its ranks name {case.name}")
    if names.nameless is not None:
        said = f"{_asked(names.nameless)} named no instance and was refused: {case.name}, {others} share"
        return say(NO, "ambiguous", f"{said} the listener", names.nameless.at, NAME_IT.format(case.name))
    return say(UNSEEN, "unnamed", f"It shares the listener with {others}; nobody has named it yet")


NAME_IT = (
    "Let its workers name it, by the path /i/{0}/ or the header X-PD-Instance; or give it a port of its own:"
    " `manage.py instances edit {0} --own-port PORT`."
)


def _asked(one: Told) -> str:
    return f"{one.what} from {one.source or 'somebody'}"


def registered(case: Case) -> Answer | None:
    there = case.roster
    if case.role == "decode" or (case.role == "seed" and there.launch is None):
        return None

    def say(verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "") -> Answer:
        return Answer("registered", "Did every rank register?", verdict, code, sentence, at, next=next_)

    missing = there.expected - there.registered
    if there.launch is not None and missing <= 0:
        proven = "" if there.proven else "; the round of probes that proves them is not over"
        said = f"{there.registered} of {there.expected} ranks are registered{proven}"
        if there.proven:
            return say(YES, "complete", said, there.registered_at)
        return say(UNSEEN, "unproven", said, there.registered_at)
    count = f"{there.registered} of {there.expected} ranks are registered; " if there.launch is not None else ""
    died_at = there.gone[0].at if there.gone else 0.0
    newer = [one for one in there.refusals if one.at >= died_at]
    if there.gone and not newer:
        last = there.gone[0]
        others = f", and {len(there.gone) - 1} more are gone" if len(there.gone) > 1 else ""
        said = f"{count}{last.name} at {last.address} is gone: {last.why}{others}"
        return say(NO, "dead", said, last.at, f"Look on that host what ended it, and start {case.name} again.")
    if newer:
        last_refused = newer[0]
        said = f"{count}{_asked(last_refused)} was refused: {last_refused.sentence.rstrip('.')}"
        return say(NO, "refused", said, last_refused.at, "Correct what that rank sends; nothing of it was stored.")
    if there.launch is None:
        if case.port.observed == "unasked":
            return say(UNSEEN, "unasked", "Its own bootstrap server, which would tell, has not answered yet")
        where = case.port.observed_url or "this address"
        advice = f"Look whether its engine was started, and whether its ranks register at {where}."
        return say(NO, "nobody", f"No rank of {case.name} is registered", next_=advice)
    said = f"{count}nobody has registered as {named(there.missing, total=missing)}"
    return say(NO, "never", said, there.registered_at, NEVER)


NEVER = "Look in that rank's log: SGLang gives up after some 12 s. If it runs, `manage.py reregister` or a restart brings it."


def answering(case: Case) -> Answer | None:
    seats = case.roster.seats
    if case.role == "decode" or (case.role == "seed" and not seats):
        return None

    def say(verdict: Verdict, code: str, sentence: str, next_: str = "", *, old: bool = False) -> Answer:
        at = case.leading.heard_at if case.leading.leads and code != "unasked" else None
        return Answer("answering", "Do its ranks answer?", verdict, code, sentence, at, old, next_)

    if not seats:
        return say(UNSEEN, "unasked", "Nobody is registered, so nobody is asked")
    asked = [seat for seat in seats if not seat.unprobed and seat.contact != "unprobed"]
    if not asked:
        return say(UNSEEN, "unasked", "None of its ranks can be probed from here, or none was yet")
    if not case.leading.leads:
        return say(UNSEEN, "unasked", "Nobody leads, so nobody probes them now")
    for contact, code, judge in CONTACTS:
        bad = [seat for seat in asked if seat.contact == contact]
        if bad:
            said, advice = judge(bad, asked)
            return say(NO, code, said, advice, old=not all(seat.verified for seat in bad))
    up = [seat for seat in asked if seat.contact == "up" and seat.verified]
    if not up:
        return say(
            UNSEEN, "unverified", "The bootstrap process that leads now has had no answer from them yet", old=True
        )
    if len(up) < len(asked):
        more = len(asked) - len(up)
        return say(UNSEEN, "unverified", f"{len(up)} of {len(asked)} ranks answered; of {more} that is not known yet")
    return say(YES, "answer", f"{len(up)} of {len(asked)} ranks answered their last probe")


def _stale(bad: Sequence[Seated], asked: Sequence[Seated]) -> tuple[str, str]:
    said = f"The port of {named([f'{seat.name} at {seat.address}' for seat in bad])} is stale: another program holds it"
    return said, "Look who listens there. Whoever was meant has another port now: let that rank register again."


def _refusing(bad: Sequence[Seated], asked: Sequence[Seated]) -> tuple[str, str]:
    who = named([f"{seat.name} at {seat.address}" for seat in bad])
    does = "refuses connections from here, and has" if len(bad) == 1 else "refuse connections from here, and have"
    said = f"{who} {does} never answered: that proves no death, for whoever refuses may stand between"
    return said, "Look on that host whether the process runs, and what stands between here and there."


def _silent(bad: Sequence[Seated], asked: Sequence[Seated]) -> tuple[str, str]:
    who = named([f"{seat.name} at {seat.address}" for seat in bad])
    does = "accepts connections and says nothing" if len(bad) == 1 else "accept connections and say nothing"
    advice = "Look at the process (stopped? `py-spy dump`), and kill it if it does not come back."
    return f"{who} {does}: stopped, or hung", advice


def _cut_off(bad: Sequence[Seated], asked: Sequence[Seated]) -> tuple[str, str]:
    hosts = sorted({seat.ip for seat in bad})
    cut_off, contact = set(hosts), bad[0].contact
    whole = all(seat.contact == contact for seat in asked if seat.ip in cut_off)
    if whole:
        said = f"{named(hosts)} cannot be reached from here: {len(bad)} of {len(asked)} ranks are cut off"
    else:
        said = f"{named([f'{seat.name} at {seat.address}' for seat in bad])} cannot be reached from here"
    return said, "Look at the network between here and there. The ranks may well run: they keep their slots."


CONTACTS: Sequence[tuple[str, str, Callable[[Sequence[Seated], Sequence[Seated]], tuple[str, str]]]] = (
    ("stranger", "stale", _stale),
    ("silent", "silent", _silent),
    ("refused", "refusing", _refusing),
    ("unreached", "partition", _cut_off),
)
"""What a probe saw, the word for it, and how it is said; the first that is found decides."""
