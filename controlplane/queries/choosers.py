"""Who could choose an instance for a request: gateways, and the routers that shall hold it."""

from __future__ import annotations

from collections import defaultdict

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.models import Router

from .sql import read

GATEWAYS = "SELECT name FROM controlplane_gateway WHERE left_at IS NULL ORDER BY name"
ROUTERS = """
SELECT m.instance, r.name FROM controlplane_routermember m JOIN controlplane_router r ON r.id = m.router_id ORDER BY r.name"""


class Choosers:
    """Who could choose an instance: every gateway that has not left, and the routers that shall hold it."""

    def __init__(self, gateway: str | None) -> None:
        self._only = gateway
        self._gateways = [name for (name,) in read(GATEWAYS)]
        self._routers: dict[str, list[str]] = defaultdict(list)
        for instance, router in read(ROUTERS):
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
