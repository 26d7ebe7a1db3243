"""Whose ranks are, or were last, on a host: what somebody asks first when a host is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controlplane.domain.addresses import parse_ip

from .sql import escaped, read

# Ranks of launches that have not ended, and of the newest one: of a host that is gone all ranks may have left.
RANKS = """
FROM controlplane_rank r
JOIN controlplane_launch l ON l.instance_id = r.instance_id AND l.number = r.launch
JOIN controlplane_instance i ON i.id = r.instance_id
WHERE (l.ended_at IS NULL
 OR l.number = (SELECT MAX(n.number) FROM controlplane_launch n WHERE n.instance_id = l.instance_id)) AND """
INSTANCES = f"SELECT DISTINCT r.instance_id {RANKS}"
HOSTS = f"""
SELECT i.name, r.ip, SUM(CASE WHEN r.left_at IS NULL THEN 1 ELSE 0 END),
 SUM(CASE WHEN r.left_at IS NULL THEN 0 ELSE 1 END) {RANKS}"""
GROUPED = " GROUP BY i.name, r.ip ORDER BY r.ip, i.name LIMIT %s"


@dataclass(frozen=True, slots=True)
class HostRow:
    """One instance on one host: how many of its ranks are there, and how many were and left."""

    instance: str
    host: str
    here: int
    left: int


def may_be_one(text: str) -> bool:
    """Only what has a dot or a colon is taken for an address, or for the beginning of one.

    >>> may_be_one("10.0"), may_be_one("node-7.rack"), may_be_one("prefill-a")
    (True, True, False)
    """
    return "." in text or ":" in text


def instances_at(text: str) -> frozenset[int]:
    """The ids of instances with ranks at this address, at addresses that begin so, or at this `ip:port`. One query."""
    where, values = _where(text)
    return frozenset(id_ for (id_,) in read(INSTANCES + where, values))


def hosts(text: str, *, limit: int) -> tuple[HostRow, ...]:
    """At most `limit` of what is on such hosts, by host. One query."""
    where, values = _where(text)
    rows = read(HOSTS + where + GROUPED, [*values, limit])
    return tuple(HostRow(name, ip, int(here), int(left)) for name, ip, here, left in rows)


def address_of(text: str) -> tuple[str, int | None]:
    """A host or the beginning of one, in small letters, and a port behind it.

    >>> address_of("10.0.0.1:5000"), address_of("[fd00::2]:81"), address_of("10.0"), address_of("fd00::2")
    (('10.0.0.1', 5000), ('fd00::2', 81), ('10.0', None), ('fd00::2', None))
    """
    text = text.lower()
    host, _, port = text.rpartition(":")
    if host and port.isascii() and port.isdigit() and int(port) < 65_536 and (host[:1] == "[" or ":" not in host):
        return host.strip("[]"), int(port)
    return text.strip("[]"), None


def _where(text: str) -> tuple[str, list[Any]]:
    if not may_be_one(text):
        return "1 = 0", []
    host, port = address_of(text)
    known = parse_ip(host)
    where, value = ("r.ip = %s", str(known)) if known is not None else ("r.ip LIKE %s ESCAPE '!'", f"{escaped(host)}%")
    return (f"{where} AND r.port = %s", [value, port]) if port is not None else (where, [value])
