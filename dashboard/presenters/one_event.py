"""One event in full: what it says, the two sides of it, who knows of it."""

from __future__ import annotations

import datetime
import json
from typing import Any

from controlplane.queries.turned import Turned

from .difference import differences
from .events import event_view
from .sought import asking

MOST_GATEWAYS = 6


def one_event(turned: Turned, *, as_json: bool) -> dict[str, Any]:
    event = turned.event
    view = event_view(event)
    # Who has not heard of it is what somebody looks for.
    known_by = sorted(turned.known_by, key=lambda gateway: (gateway.acknowledged, gateway.gateway))
    return {
        "one": turned,
        "view": view,
        "told": view.sentence[:1].upper() + view.sentence[1:].rstrip(".") + ".",
        "exact": f"{datetime.datetime.fromtimestamp(event.at, datetime.UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3],
        "turned": differences(turned.before, turned.after),
        "known_by": known_by[:MOST_GATEWAYS],
        "known_more": max(0, len(known_by) - MOST_GATEWAYS),
        "as_json": as_json,
        "document": json.dumps(event.data, indent=2, ensure_ascii=False) if as_json else "",
        "of_instance": f"/events/{asking({}, q=f'instance:{event.instance}')}" if event.instance else "",
        "of_actor": f"/events/{asking({}, who=event.actor)}" if event.actor else "",
    }
