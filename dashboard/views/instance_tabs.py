"""What the other tabs of an instance show: why, launches, rooms, engine info, pairs, events. Each a page of a bounded list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.queries import compatibility, engine_info, fleet, history, inquiry, rooms
from controlplane.queries.closeup import LAUNCHES, CloseUp
from dashboard.presenters.events import event_views
from dashboard.presenters.evidence import UNSEEN
from dashboard.presenters.instance_query import Asked
from dashboard.presenters.launches import launch_lines, shared_facts
from dashboard.presenters.questions import beside, question_views, told, tone_of
from dashboard.presenters.timeline import timeline

PAGE = 50
COLLISIONS = 10


def _launches(seen: CloseUp, asked: Asked, now: float) -> dict[str, Any]:
    shown = seen.launches
    if asked.before is not None:
        shown = fleet.launches(seen.instance.id, before=asked.before, limit=LAUNCHES)
    older = shown[-1].number if len(shown) == LAUNCHES else None
    return {
        "launch_lines": launch_lines(shown, seen.instance),
        "older": older,
        "shared": shared_facts(seen.instance.current, seen.instance.candidate),
        "timeline": timeline(seen.launches, seen.seats, now=now),
    }


def _rooms(seen: CloseUp, asked: Asked, now: float) -> dict[str, Any]:
    name = seen.instance.name
    current = seen.instance.current
    return {
        "rooms": rooms.live_rooms(name, now=now, after=asked.after, limit=PAGE),
        "collisions": rooms.collisions(instance=name, limit=COLLISIONS),
        "follows": current is not None and current.facts.get("load_balance_method") == "follow_bootstrap_room",
        "groups": current.topology.dp if current is not None else 0,
    }


def _engine_info(seen: CloseUp, asked: Asked, now: float) -> dict[str, Any]:
    found = engine_info.sessions(seen.instance.id, before=asked.before, limit=PAGE + 1)
    return {"sessions": found[:PAGE], "older": found[PAGE - 1].id if len(found) > PAGE else None}


def _pairs(seen: CloseUp, asked: Asked, now: float) -> dict[str, Any]:
    name, role = seen.instance.name, seen.instance.role
    if role == "seed" or seen.instance.retired:
        return {"pairs": None}
    prefill, decode = (name, None) if role == "prefill" else (None, name)
    found = compatibility.pairs(now=now, prefill=prefill, decode=decode, after=asked.after, limit=PAGE)
    return {"pairs": found}


def _events(seen: CloseUp, asked: Asked, now: float) -> dict[str, Any]:
    wanted = history.Wanted(instance=seen.instance.name, before=asked.before)
    found = history.newest(wanted, limit=PAGE)
    return {"events": event_views(found.items), "older": found.next.revision if found.next is not None else None}


def _why(seen: CloseUp, asked: Asked, now: float) -> dict[str, Any]:
    found = inquiry.about(seen, now=now)
    return {
        "inquiry": found,
        "inquiry_tone": tone_of(found),
        "asked_told": told(found),
        "questions": question_views(found),
        "beside": beside(found),
        "unseen": UNSEEN,
    }


CONTEXTS: Mapping[str, Callable[[CloseUp, Asked, float], dict[str, Any]]] = {
    "why": _why,
    "launches": _launches,
    "rooms": _rooms,
    "engine-info": _engine_info,
    "pairs": _pairs,
    "events": _events,
}
