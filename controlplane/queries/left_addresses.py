"""Whether a report that somebody could not be reached speaks of an address that its rank has left: one query more, if any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.db import connections

from controlplane.databases import READER
from controlplane.domain.addresses import canonical_host
from controlplane.domain.claims import Said, clock
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot, Topology

from .wording import address, slot_name

ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|\b(\d{1,3}(?:\.\d{1,3}){3})):(\d{1,5})\b")
MOST = 8
"""So many addresses are looked for: those of the earliest failures."""

# Of everybody who ever was there, and of whoever is in the same slot of the launch that serves now.
WHO = """
SELECT r.instance_id, r.ip, r.port, r.dp, r.cp, r.tp, r.pp, r.launch, r.left_at, l.state, l.ended_at, n.ip, n.port,
 c.dp, c.cp, c.tp, c.pp
FROM controlplane_rank r JOIN controlplane_launch l ON l.instance_id = r.instance_id AND l.number = r.launch
JOIN controlplane_launch c ON c.instance_id = r.instance_id AND c.state = 'current' AND c.ended_at IS NULL
JOIN controlplane_rank n ON n.instance_id = c.instance_id AND n.launch = c.number AND n.left_at IS NULL
 AND n.dp = r.dp AND n.cp = r.cp AND n.tp = r.tp AND n.pp = r.pp
WHERE {where} ORDER BY r.launch"""


def marked(said: Sequence[Said], ids: Mapping[str, int]) -> tuple[Said, ...]:
    """The same reports; a failure to connect that names an address which nobody has any more says who had it, and where
    that rank is now. A report is a claim: what is quoted is what the directory knows of that address."""
    named = {one: _addresses(one.detail) for one in said if one.rung == "connected" and not one.passed}
    wanted = [(ids[one.instance], *at) for one, found in named.items() if one.instance in ids for at in found][:MOST]
    if not wanted:
        return tuple(said)
    moved = _moved(wanted)
    return tuple(
        replace(
            one,
            stale=next(
                (moved[key] for at in named.get(one, ()) if (key := (ids.get(one.instance, 0), *at)) in moved), ""
            ),
        )
        for one in said
    )


def _addresses(detail: str) -> list[tuple[str, int]]:
    """
    >>> _addresses("10.0.0.1:4001 refuses, [FD00::1]:4002 too, and 300.1.1.1:5 is none")
    [('10.0.0.1', 4001), ('fd00::1', 4002)]
    """
    found = []
    for v6, v4, port in ADDRESS.findall(detail):
        try:
            found.append((canonical_host(v6 or v4), int(port)))
        except Refused:
            continue
    return found


def _moved(wanted: Sequence[tuple[int, str, int]]) -> dict[tuple[int, str, int], str]:
    where = " OR ".join(["(r.instance_id = %s AND r.ip = %s AND r.port = %s)"] * len(wanted))
    with connections[READER].cursor() as cursor:
        cursor.execute(WHO.format(where=where), [value for one in wanted for value in one])
        rows = cursor.fetchall()
    found: dict[tuple[int, str, int], str] = {}
    # The newest that had it comes last, and has the last word.
    for id_, ip, port, dp, cp, tp, pp, _, left_at, state, ended_at, now_ip, now_port, *sizes in rows:
        key = (id_, ip, port)
        if (now_ip, now_port) == (ip, port) or (left_at is None and state == "current"):
            found.pop(key, None)
            continue
        name = slot_name(Slot(dp, cp, tp, pp), Topology(*sizes))
        gone = left_at if left_at is not None else ended_at
        since = f" until {clock(gone)}" if gone is not None else ""
        found[key] = f"{name} had {address(ip, port)}{since}, and is at {address(now_ip, now_port)} now"
    return found
