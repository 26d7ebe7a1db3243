"""Who could choose an instance for a request: gateways, and the routers that shall hold it."""

from __future__ import annotations

from collections import defaultdict

from django.db import connections

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.models import Router

GATEWAYS = "SELECT name FROM controlplane_gateway WHERE left_at IS NULL ORDER BY name"
ROUTERS = """
SELECT m.instance, r.name FROM controlplane_routermember m JOIN controlplane_router r ON r.id = m.router_id ORDER BY r.name"""


class Choosers:
    """Who could choose an instance: every gateway that has not left, and the routers that shall hold it."""

    def __init__(self, gateway: str | None) -> None:
        self._only = gateway
        self._gateways = [name for (name,) in _read(GATEWAYS)]
        self._routers: dict[str, list[str]] = defaultdict(list)
        for instance, router in _read(ROUTERS):
            self._routers[instance].append(f"router:{router}")
        if gateway is not None and gateway not in self._gateways:
            known = Router.objects.using(READER).filter(name=gateway.removeprefix("router:"))
            if not gateway.startswith("router:") or not known.exists():
                raise Refused(
                    f"no gateway is named {gateway}, and a router is asked for as router:NAME", code="not_found"
                )

    def of(self, name: str) -> tuple[str, ...]:
        if self._only is not None:
            return (self._only,)
        return (*self._gateways, *self._routers.get(name, ()))


def _read(sql: str) -> list[tuple[str, ...]]:
    with connections[READER].cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())
