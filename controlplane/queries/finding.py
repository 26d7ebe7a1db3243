"""What somebody may mean by a few letters or a number: instances, addresses, drains, gateways, routers, an event."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.addresses import bracketed, parse_ip
from controlplane.domain.topology import Slot

from . import hosts
from .fleet import snapshot
from .hosts import HostRow
from .sql import escaped, read

MOST = 8
MOST_BESIDE = 4
LONGEST = 100

# An exact name first, then names that begin so, then those that hold it.
PLACE = """CASE WHEN LOWER({name}) = %s THEN 0 WHEN LOWER({name}) LIKE %s ESCAPE '!' THEN 1 ELSE 2 END"""
INSTANCES = f"""
SELECT i.name, i.role, i.intent FROM controlplane_instance i WHERE LOWER(i.name) LIKE %s ESCAPE '!'
ORDER BY CASE WHEN i.intent = 'retired' THEN 1 ELSE 0 END, {PLACE.format(name="i.name")}, i.name LIMIT {MOST}"""
CHOOSERS = f"""
SELECT 'gateway', g.name, g.url FROM controlplane_gateway g WHERE g.left_at IS NULL AND LOWER(g.name) LIKE %s ESCAPE '!'
UNION ALL SELECT 'router', r.name, r.url FROM controlplane_router r WHERE LOWER(r.name) LIKE %s ESCAPE '!'
ORDER BY 1, 2 LIMIT {MOST_BESIDE}"""
DRAINS = f"""
SELECT d.id, i.name, d."group", d.progress, d.ended_at FROM controlplane_drain d
JOIN controlplane_instance i ON i.id = d.instance_id
WHERE d.id = %s OR (d.ended_at IS NULL AND LOWER(i.name) LIKE %s ESCAPE '!')
ORDER BY d.ended_at IS NOT NULL, d.id DESC LIMIT {MOST_BESIDE}"""
RANKS = f"""
SELECT i.name, l.state, r.dp, r.cp, r.tp, r.pp, r.ip, r.port FROM controlplane_rank r
JOIN controlplane_launch l ON l.instance_id = r.instance_id AND l.number = r.launch
JOIN controlplane_instance i ON i.id = r.instance_id
WHERE r.left_at IS NULL AND l.ended_at IS NULL AND r.ip LIKE %s ESCAPE '!' AND r.port = %s
ORDER BY i.name, r.dp, r.cp, r.tp, r.pp LIMIT {MOST_BESIDE}"""
NOBODY = "!!"
"""As an address that no rank has."""

HEAD = "SELECT revision FROM controlplane_ledgerhead WHERE id = 1"


@dataclass(frozen=True, slots=True)
class InstanceFound:
    name: str
    role: str
    intent: str


@dataclass(frozen=True, slots=True)
class DrainFound:
    """`group`: None for the whole instance."""

    id: int
    instance: str
    group: int | None
    progress: str
    open: bool


@dataclass(frozen=True, slots=True)
class RankFound:
    instance: str
    launch: str
    slot: Slot
    address: str


@dataclass(frozen=True, slots=True)
class ChooserFound:
    """`kind`: gateway or router."""

    kind: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Finds:
    """`number`: what was typed, when it is one; `hosts`: whose addresses begin so, one more than are shown; `revision`: the
    newest event there is."""

    instances: tuple[InstanceFound, ...]
    drains: tuple[DrainFound, ...]
    ranks: tuple[RankFound, ...]
    hosts: tuple[HostRow, ...]
    choosers: tuple[ChooserFound, ...]
    number: int | None
    revision: int


def find(text: str) -> Finds:
    """Bounded lists of what `text` may mean; rooms are not looked for, since the journal has no index by them."""
    sought = text.strip().casefold()[:LONGEST]
    number = int(sought) if sought.isascii() and sought.isdigit() and len(sought) < 19 else None
    ip, port = hosts.address_of(sought) if hosts.may_be_one(sought) else (NOBODY, None)
    with snapshot():
        instances = read(INSTANCES, [_like(sought), sought, _like(sought)[1:]])
        choosers = read(CHOOSERS, [_like(sought)] * 2)
        drains = read(DRAINS, [number if number is not None else -1, _like(sought)])
        exact = parse_ip(ip)
        begins = escaped(str(exact)) if exact is not None else f"{escaped(ip)}%"
        ranks = read(RANKS, [begins, port]) if port is not None else []
        on_hosts = hosts.hosts(sought, limit=MOST_BESIDE + 1) if port is None else ()
        ((revision,),) = read(HEAD, [])
    return Finds(
        tuple(InstanceFound(*row) for row in instances),
        tuple(
            DrainFound(id_, name, group if group >= 0 else None, progress, ended is None)
            for id_, name, group, progress, ended in drains
        ),
        tuple(
            RankFound(name, launch, Slot(dp, cp, tp, pp), f"{bracketed(at)}:{port}")
            for name, launch, dp, cp, tp, pp, at, port in ranks
        ),
        on_hosts,
        tuple(ChooserFound(*row) for row in choosers),
        number,
        revision,
    )


def _like(text: str) -> str:
    return f"%{escaped(text)}%"
