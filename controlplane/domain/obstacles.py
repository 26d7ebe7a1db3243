"""What each blocker of a drain is about, and what a person can do about it: one table over their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`kind`: a key of NEXT. `about`: gateway or router, and `name` which one; both blank where it is about nobody.

    `next` is the next step, a sentence without its full stop.
    """

    kind: str
    sentence: str
    next: str
    about: str = ""
    name: str = ""


GATEWAY, ROUTER = "gateway", "router"

NEXT: Mapping[str, str] = {
    # Who may still send.
    "no_selector": "Stop whoever sends requests, then force the end when you know that they have ended",
    "silent_gateway": "Start {name} again, or remove it if it is gone: what it held counts as unknown then",
    "behind": "Wait: {name} acknowledges when it has read so far. If it stays, see whether it follows",
    "router_away": "Bring {name} back, or let go of it when nobody sends through it any more",
    "router_whole": "Drain the whole instance, or take it off the list of {name}",
    "router_holds": "Wait: it is taken out in the next round. If it stays, look at {name}",
    "router_unseen": "Wait for the next look at {name}. If it stays, see whether the Celery worker runs",
    "restored": "Wait: whoever chooses workers is asked again",
    # What is still there.
    "restarted": "Wait: the new launch is asked. Cancel the drain if the restart was what you wanted",
    "no_group": "Cancel this drain, and drain a DP group that exists",
    "no_launch": "Let it register again so that it can be asked, or force the end if its processes are gone",
    "no_ranks": "Wait for its engine, or have a gateway report open rooms",
    "rooms": "Wait: each ends when it expires, if not before",
    "late": "Find and stop who sent it; then wait until the room has expired",
    # Who can prove it.
    "busy": "Wait: requests end by themselves. Force it only if they hang",
    "silent_witness": "See whether it is up and can be reached from here",
    "vague": "Give the engine a version that tells all of its queues, or have workers report open rooms",
    "no_witness": "Give the URL of its engine, or have a worker or a gateway report open rooms",
    "proof": "Wait a moment: nothing is open, and it must be said twice",
    "unknown": "See what the sentence says",
}

_ALONE = {
    "nobody": "no_selector",
    "restored": "restored",
    "restarted": "restarted",
    "topology": "no_group",
    "launch": "no_launch",
    "ranks": "no_ranks",
    "rooms": "rooms",
    "late": "late",
}
_NAMED = {
    "silent": ("silent_gateway", GATEWAY),
    "acknowledge": ("behind", GATEWAY),
    "away": ("router_away", ROUTER),
    "whole": ("router_whole", ROUTER),
    "present": ("router_holds", ROUTER),
    "unseen": ("router_unseen", ROUTER),
}
_WITNESSES = {
    "busy": "busy",
    "silent": "silent_witness",
    "vague": "vague",
    "nobody": "no_witness",
    "proof": "proof",
}


def obstacle(key: str, sentence: str) -> Obstacle:
    """
    >>> obstacle("silent gw-2", "…").name, obstacle("busy the engine 0,1", "…").kind
    ('gw-2', 'busy')
    """
    first, *rest = key.split(" ")
    if not rest:
        return _made(_ALONE.get(first, "unknown"), sentence)
    if len(rest) == 1 and first in _NAMED:
        kind, about = _NAMED[first]
        return _made(kind, sentence, about, rest[0])
    # What a witness says: its kind, its name, the DP ranks in question.
    about, name = (GATEWAY, rest[1]) if len(rest) == 3 and rest[0] == GATEWAY else ("", "")
    return _made(_WITNESSES.get(first, "unknown"), sentence, about, name)


def obstacles(blockers: Mapping[str, str]) -> tuple[Obstacle, ...]:
    return tuple(obstacle(key, sentence) for key, sentence in blockers.items())


def _made(kind: str, sentence: str, about: str = "", name: str = "") -> Obstacle:
    return Obstacle(kind, sentence, NEXT[kind].format(name=name or "it"), about, name)
