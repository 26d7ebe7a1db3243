"""Where the way of a room stops, why, and what a person can do: at the first failure, else at the first rung without proof."""

from __future__ import annotations

from collections.abc import Sequence

from .claims import Conclusion, Follower, Held, Rung, Said, Standing, clock
from .room_troubles import worst

PATIENCE_SECONDS = 5.0
"""So long after a rung the next one may simply be on its way."""

ECHOES, ECHO_SECONDS = ("failed", "aborted", "prefill_failed"), 2.0

WANTED = {
    "registered": "binding",
    "resolved": "look-up",
    "connected": "connect",
    "verified": "transfer that was verified",
    "consumed": "word that the KV was taken",
}
FAILED_NEXT = {
    "registered": "Look at the prefill: the request did not begin there.",
    "resolved": "Look at what the decode was told: whether it asked the right prefill, and whether that one serves.",
    "connected": "Look whether the prefill has this request too, and whether its ranks can be reached from the decode.",
    "verified": "Nothing was consumed. Send the request again with a new room; if it comes back, look at the prefill.",
    "consumed": "The KV had arrived and was verified: look at the decode.",
}
LEARN_AGAIN = (
    "The decode goes by what it learned before: it drops that once it polls /health of that prefill and is told twice;"
    " one that does not poll must be started again."
)
STOPS_NEXT = {
    "resolved": "Look whether a decode has this request, and which prefill it asks; workers report with the SDK.",
    "connected": "Look whether the decode can reach the ranks' ports, and waits for memory.",
    "verified": "Look at the transfer engines of both sides, and whether the prefill still computes.",
    "consumed": "Look at the decode: the KV is there.",
}


def conclude(
    room: int,
    held: Sequence[Held],
    living: Sequence[Held],
    followers: Sequence[Follower],
    *,
    rungs: Sequence[Rung],
    said: Sequence[Said],
    now: float,
) -> Conclusion:
    failed = next((rung.name for rung in rungs if rung.standing is Standing.FAILED), None)
    if failed is not None:
        return _failed(room, failed, held, living, followers, said)
    consumed = rungs[-1].standing is Standing.PASSED
    trouble = worst(room, living)
    if trouble is not None and not consumed:
        what, advice = trouble
        last = _last_proven(rungs)
        if last is not None and last is not rungs[0]:
            what = f"{_stopped(last, rungs[rungs.index(last) + 1].name, now)}; {what}"
        return Conclusion("trouble", f"In doubt at {last.name if last else 'registered'}.", f"{what}.", advice)
    if (elsewhere := _elsewhere(held, said)) is not None:
        return elsewhere
    if said or any(rung.standing is Standing.PASSED for rung in rungs[1:]):
        return _reported(rungs, followers, said, now)
    return _told_by_nobody(held, living, followers)


def cause(failures: Sequence[Said]) -> Said:
    """The first of them by time. Reports of two workers are ordered to within the time that a report takes only, so one that says
    no more than that the other side gave up is not put before the one that says why."""
    first = failures[0]
    return next((one for one in failures if one.result not in ECHOES and one.at - first.at <= ECHO_SECONDS), first)


def _failed(
    room: int,
    rung: str,
    held: Sequence[Held],
    living: Sequence[Held],
    followers: Sequence[Follower],
    said: Sequence[Said],
) -> Conclusion:
    """The first failure by time is the cause of those that come after it; facts that explain it are said with it."""
    first = cause([one for one in said if one.rung == rung and not one.passed])
    why = first.detail.rstrip(".") or "it did not say why"
    sentence = (
        f"{first.who} reports {first.result.replace('_', ' ')} at {clock(first.at)}, with {first.instance}: {why}."
    )
    trouble = (first.stale, LEARN_AGAIN) if first.stale else worst(room, living)
    if trouble is None:
        doubts = [doubt for one in held if one.instance == first.instance for doubt in one.doubts]
        doubts += [doubt for one in followers if one.instance == first.instance for doubt in one.doubts]
        if doubts:
            trouble = doubts[0], f"Look at the ranks of {first.instance}."
    if trouble is None:
        because = next((one.because for one in followers if one.instance == first.instance and one.because), "")
        if because:
            trouble = because, f"Look at {first.instance}."
    if trouble is None:
        return Conclusion("failed", f"Failed at {rung}.", sentence, FAILED_NEXT[rung])
    return Conclusion(
        "failed", f"Failed at {rung}.", f"{sentence} {trouble[0][:1].upper()}{trouble[0][1:]}.", trouble[1]
    )


def _elsewhere(held: Sequence[Held], said: Sequence[Said]) -> Conclusion | None:
    """A decode that fetches from one prefill what another one holds."""
    homes = {one.instance for one in held if one.live}
    strays = [one for one in said if homes and one.instance not in homes]
    if not strays:
        return None
    one, home = strays[0], next(one.where for one in held if one.live)
    return Conclusion(
        "trouble",
        f"In doubt at {one.rung}.",
        f"{home} holds this room, but {one.who} reports of it with {one.instance}.",
        "One request has one prefill: look which one its router told the decode.",
    )


def _reported(rungs: Sequence[Rung], followers: Sequence[Follower], said: Sequence[Said], now: float) -> Conclusion:
    """Some rung after the first is proven: as far as the proof is without a gap, the way is told."""
    gap = next((place for place, rung in enumerate(rungs) if rung.standing is not Standing.PASSED), None)
    if gap is None:
        last = [one for one in said if one.rung == rungs[-1].name][-1]
        at = f"{last.who} took the KV of {last.instance} at {clock(last.at)}"
        return Conclusion("consumed", "Consumed.", f"{at}; all {len(rungs)} rungs are proven.")
    later = [rung.name for rung in rungs[gap + 1 :] if rung.standing is Standing.PASSED]
    missing = rungs[gap].name
    if later:
        head = f"Stops at {rungs[gap - 1].name}." if gap else f"{missing.capitalize()} is not observed."
        follows = missing == "registered" and any(one.instance in {s.instance for s in said} for one in followers)
        why = "its prefill follows the room, so nobody has to bind it" if follows else "nobody who saw it reports"
        rest = " and ".join([", ".join(later[:-1]), later[-1]] if later[:-1] else later)
        verb = "is" if len(later) == 1 else "are"
        return Conclusion("gaps", head, f"No {WANTED[missing]} was seen ({why}), although {rest} {verb} proven.")
    proven = rungs[gap - 1]
    stopped = _stopped(proven, missing, now)
    if now - _at(proven) < PATIENCE_SECONDS:
        return Conclusion("stops", f"Stops at {proven.name}.", f"{stopped}.")
    doubts = [doubt for one in followers if one.instance in {s.instance for s in said} for doubt in one.doubts]
    why = f"; {doubts[0]}" if doubts else ""
    return Conclusion("stops", f"Stops at {proven.name}.", f"{stopped}{why}.", STOPS_NEXT[missing])


def _stopped(proven: Rung, missing: str, now: float) -> str:
    at = _at(proven)
    began = f"{proven.name.capitalize()} at {clock(at)}"
    if now - at < PATIENCE_SECONDS:
        return f"{began}, {max(0.0, now - at):.2g} s ago; the next may be on its way"
    return f"{began}; no {WANTED[missing]} seen within {PATIENCE_SECONDS:g} s"


def _at(rung: Rung) -> float:
    """When it was last shown."""
    return max((claim.at for claim in rung.claims if claim.at is not None), default=0.0)


def _told_by_nobody(held: Sequence[Held], living: Sequence[Held], followers: Sequence[Follower]) -> Conclusion:
    if living:
        said = (
            f"{living[0].where} holds this room. Nobody has reported that a decode resolved it or connected, so nothing"
        )
        return Conclusion("stops", "Stops at registered.", f"{said} shows that the KV cache of this request arrived.")
    if held:
        said = f"{held[0].where} held this room; its binding is over, and a decode that asks now is told nothing."
        return Conclusion("expired", "Expired.", said)
    if followers:
        return Conclusion(
            "unbound",
            "Nobody bound this room.",
            "With prefills that follow the room nobody has to: its number says the DP group. Whether such a request was"
            " ever made is not observed.",
        )
    return Conclusion(
        "unbound",
        "Nobody bound this room,",
        "or its binding has expired and was trimmed. No prefill that is registered follows the room.",
    )


def _last_proven(rungs: Sequence[Rung]) -> Rung | None:
    """The last one before the first gap."""
    proven = None
    for rung in rungs:
        if rung.standing is not Standing.PASSED:
            break
        proven = rung
    return proven
