"""The later questions about an instance: its engine, what operators want, and whoever sends requests to it. Pure."""

from __future__ import annotations

from .attention import counted
from .attention_loads import HELD_UP_SECONDS, LOOK, WAITS
from .engine_health import State
from .engine_queues import HELD_UP, queued
from .inquiry_arrival import NO, UNSEEN, YES, named
from .inquiry_facts import Case, Front
from .questions import Answer, Verdict

FRESH_SECONDS = 45.0
"""A load that is older while the engine is asked and well has stopped being told."""


def capital(sentence: str) -> str:
    """
    >>> capital("router r answers")
    'Router r answers'
    """
    return f"{sentence[:1].upper()}{sentence[1:]}"


def engine(case: Case) -> Answer | None:
    at = case.engine
    if at is None and case.role == "seed":
        return None

    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        seen_at, old = (at.asked_at, at.old) if at is not None else (None, False)
        return Answer("engine", "Does its engine answer?", verdict, code, sentence, seen_at, old, next_)

    if at is None:
        where = f"`manage.py instances edit {case.name} --engine-url URL` says where"
        return say(UNSEEN, "unasked", f"Nobody is told where its engine's HTTP server is; {where}")
    said = f"Its engine is {at.state}: {at.sentence}"
    if at.state is State.UNKNOWN:
        return say(UNSEEN, "unasked", said)
    if at.well:
        return say(YES, at.state.value, said)
    return say(NO, at.state.value, said, ENGINE_NEXT.get(at.state, f"Look at the engine at {at.at}."))


ENGINE_NEXT = {
    State.STARTING: "Wait until it has loaded its model, or look in its log what keeps it.",
    State.STRANGER: "Correct the engine's address here, or look who took its port.",
    State.DOWN: "Look in the engine's log what ended it, and start it again.",
    State.SILENT: "Look whether its process hangs, or its host is cut off.",
    State.LATE: "Look whether its process hangs, or its host is cut off.",
}


def wanted(case: Case) -> Answer:
    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        return Answer("wanted", "Do operators want it used?", verdict, code, sentence, case.wished_at, next=next_)

    if case.wished == "enabled" and case.no_group:
        advice = f"When the work is done: `manage.py uncordon {case.name} --dp GROUP`."
        return say(NO, "groups", f"It is enabled, but {case.groups}", advice)
    if case.wished == "enabled":
        return say(YES, "enabled", f"It is enabled{case.wish}{f'; {case.groups}' if case.groups else ''}")
    if case.wished == "retired":
        return say(NO, "retired", f"It is retired{case.wish}; whoever asks for it is told 404")
    advice = f"Nothing is broken. When the work is done: `manage.py uncordon {case.name}`."
    return say(NO, case.wished, f"It is {case.wished}{case.wish}", advice)


def proxy(case: Case) -> Answer | None:
    if case.role == "seed":
        return None

    def say(verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "") -> Answer:
        return Answer("proxy", "Does what stands before it answer?", verdict, code, capital(sentence), at, next=next_)

    if not case.fronts:
        return say(
            UNSEEN, "nobody", "No gateway has joined and no router is named for it: what stands before it is not known"
        )
    away = [front for front in case.fronts if front.away]
    if away:
        first = away[0]
        why = f": {first.why}" if first.why else ""
        who = first.called if len(away) == 1 else f"{first.called} and {len(away) - 1} more"
        if case.engine is not None and case.engine.well:
            said, code = (
                f"{who} does not answer{why}; its engine answers directly, so only the proxy fails",
                "proxy_down",
            )
        elif case.engine is not None and case.engine.state is not State.UNKNOWN:
            said, code = f"{who} does not answer{why}, and its engine does not either", "all_down"
        else:
            said, code = f"{who} does not answer{why}; whether its engine does is not observed", "proxy_down"
        return say(
            NO,
            code,
            said,
            first.seen_at,
            f"Look at {first.called}, and start it again; its workers are told to it then.",
        )
    asked = [front for front in case.fronts if front.asked]
    if not asked:
        return say(UNSEEN, "unasked", f"{named([front.called for front in case.fronts])} has not been heard from yet")
    oldest = min((front.seen_at for front in asked if front.seen_at is not None), default=None)
    verb = "answers" if len(asked) == 1 else "answer"
    return say(YES, "answers", f"{named([front.called for front in asked])} {verb}", oldest)


def router(case: Case) -> Answer | None:
    if case.role == "seed":
        return None

    def say(verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "") -> Answer:
        return Answer("router", "Do routers hold it as they should?", verdict, code, capital(sentence), at, next=next_)

    routers = [front for front in case.fronts if front.router]
    if not routers:
        return say(UNSEEN, "nobody", "No router is named for it")
    seen = [front for front in routers if front.asked and not front.away and front.present is not None]
    if not seen:
        return say(UNSEEN, "unasked", f"Whether {named([front.called for front in routers])} lists it was not seen")
    absent = [front for front in seen if not front.present]
    if not absent:
        verb = "lists" if len(seen) == 1 else "list"
        return say(YES, "listed", f"{named([front.called for front in seen])} {verb} it", seen[0].seen_at)
    first = absent[0]
    if case.away:
        return say(YES, "kept_away", f"{first.called} does not list it, as it should: {case.away}", first.seen_at)
    why = f": {first.why}" if first.why else ""
    said = f"{first.called} does not list it, although nothing speaks against it here{why}"
    return say(
        NO, "unlisted", said, first.seen_at, f"Look at {first.called}: what it says of this worker, and its log."
    )


def breaker(case: Case) -> Answer | None:
    if case.role == "seed":
        return None

    def say(
        verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "", old: bool = False
    ) -> Answer:
        return Answer("breaker", "Are the breakers for it closed?", verdict, code, capital(sentence), at, old, next_)

    for shut in sorted(case.shut, key=lambda one: one.state != "open"):
        who = Front(shut.gateway).called
        group = "" if shut.group is None else f" for DP group {shut.group}"
        why = f": {shut.reason}" if shut.reason else ""
        if shut.state == "open":
            said, code = f"The breaker of {who} is open{group}{why}: it sends nothing there", "open"
        else:
            said, code = f"The breaker of {who} is half open{group}{why}: it lets a probe through", "half_open"
        advice = f"Look why its requests failed, at {who} and in the engine's log; it tries again by itself."
        return say(NO, code, said, shut.heard_at, advice, shut.old)
    known = [front for front in case.fronts if front.breakers and front.asked and not front.away]
    if not known:
        return say(UNSEEN, "unread", "Nobody who has a breaker for it tells of it here")
    oldest = min((front.seen_at for front in known if front.seen_at is not None), default=None)
    verb = "has" if len(known) == 1 else "have"
    return say(YES, "closed", f"{named([front.called for front in known])} {verb} no open breaker for it", oldest)


def policy(case: Case, now: float) -> Answer | None:
    if case.role == "seed":
        return None
    at = case.engine

    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        told_at = at.loads_at if at is not None else None
        return Answer(
            "policy", "Is its load known, and do its requests get on?", verdict, code, sentence, told_at, next=next_
        )

    if at is None or at.loads_at is None:
        return say(UNSEEN, "unknown", "Its load has not been read: whoever chooses by load has nothing to go by")
    # Who is asked rarely tells it as rarely.
    seen_with = (at.asked_at or now) - at.loads_at if at.well and not at.old else now - at.loads_at
    if min(now - at.loads_at, seen_with) <= FRESH_SECONDS and (still := at.counts.get("still")):
        which = f"DP rank {at.counts.get('still_dp', 0)}" + (f" and {still - 1} more" if still > 1 else "")
        said = f"{which} {'does' if still == 1 else 'do'} not renew its load any more while the others do: what goes there waits"
        return say(NO, "still", said, f"Look what {which} hangs in, in the log of the engine at {at.at}.")
    held_up_since = at.counts.get(HELD_UP, now)
    if min(now - at.loads_at, seen_with) <= FRESH_SECONDS and now - held_up_since >= HELD_UP_SECONDS:
        count = queued(at.counts)
        said = (
            f"It is well and computes nothing, and {counted(count, 'request')} {'waits' if count == 1 else 'wait'}"
            f" {WAITS[case.role]}: for a minute or longer none has got on"
        )
        return say(NO, "held_up", said, f"{LOOK[case.role]}.")
    if min(now - at.loads_at, seen_with) <= FRESH_SECONDS:
        running, waiting = at.counts.get("running"), at.counts.get("waiting")
        known = ", ".join(
            f"{count} {what}" for count, what in ((running, "running"), (waiting, "waiting")) if count is not None
        )
        return say(YES, "known", f"It tells its load{f': {known}' if known else ''}")
    if at.old or not at.well:
        return say(UNSEEN, "old", "Its load was last read when its engine was last well")
    said = "Its engine answers, and does not tell its load any more: whoever chooses by load takes it for what it was"
    return say(NO, "stopped", said, f"Look whether /v1/loads of {at.at} answers, and whether its scheduler hangs.")


def health(case: Case) -> Answer | None:
    if case.role == "seed":
        return None

    def say(verdict: Verdict, code: str, sentence: str, at: float | None = None, next_: str = "") -> Answer:
        return Answer("health", "Do all say the same of its health?", verdict, code, sentence, at, next=next_)

    there = case.roster
    if there.launch is not None and case.health != 200:
        why = f": {case.health_reason}" if case.health_reason else ""
        said = f"/health here answers {case.health}{why}"
        advice = "Wait: it ends once every decode that polls was told twice, a minute at most."
        return say(NO, "flushing", said, case.health_since, advice)
    voices: list[tuple[bool, str, float | None]] = []
    if there.launch is not None:
        voices.append((True, "/health here answers 200", case.leading.heard_at))
    if case.engine is not None and case.engine.state is not State.UNKNOWN:
        voices.append((case.engine.well, f"its engine is {case.engine.state}", case.engine.asked_at))
    for front in case.fronts:
        if front.healthy is not None and not front.away:
            word = "well" if front.healthy else "sick"
            voices.append((front.healthy, f"{front.called} takes it for {word}", front.seen_at))
    said = ", ".join(words for _, words, _ in voices)
    if len(voices) < 2:
        only = f"only one tells: {said}" if voices else "nobody tells"
        return say(UNSEEN, "alone", f"There is nothing to compare, since {only}")
    oldest = min((at for _, _, at in voices if at is not None), default=None)
    if len({well for well, _, _ in voices}) == 1:
        return say(YES, "agree", capital(said) if voices[0][0] else f"All take it for sick: {said}", oldest)
    sick = next(words for well, words, _ in voices if not well)
    advice = f"Look why {sick}: what it asks, from where, and when it asked last."
    return say(NO, "disagree", f"They do not agree: {said}", oldest, advice)


def pairs(case: Case) -> Answer | None:
    if case.role == "seed":
        return None
    other = "decode" if case.role == "prefill" else "prefill"

    def say(verdict: Verdict, code: str, sentence: str, next_: str = "") -> Answer:
        return Answer("pairs", "Does it fit its partners?", verdict, code, sentence, next=next_)

    against = (
        f"{case.misfits[0]}{f'; and {len(case.misfits) - 1} more' * (len(case.misfits) > 1)}" if case.misfits else ""
    )
    if against and not case.fitting and not case.unsure:
        return say(NO, "misfit", f"It can work with no {other} that is here: not with {against}", SAME_VALUE)
    if not case.fitting:
        if against:
            return say(
                UNSEEN, "unknown", f"It cannot work with {against}; of no other {other} enough is known to compare"
            )
        return say(UNSEEN, "unknown", f"Of no {other} enough is known to compare")
    count = f"one {other}" if case.fitting == 1 else f"{case.fitting} {other}s"
    but = f"; it cannot work with {against}" if against else ""
    return say(YES, "fit", f"Nothing that is known speaks against {count}{but}")


SAME_VALUE = "Start both with the same value."
