"""Instances in the tables with engines behind them, and the commands that routers are driven by."""

from __future__ import annotations

from typing import Any

from controlplane.access.secrets import seal
from controlplane.commands import routers
from controlplane.databases import FACTS
from controlplane.domain.topology import Topology
from controlplane.ledger.tail import EventRow, after
from controlplane.models import Instance
from controlplane.queries import routers as queries
from tests.controlplane.queries.world import World
from tests.doubles.engine import Engine

WHO = {"actor": "anna", "reason": "a test"}


class Fleet:
    """`prefill("a")` and `decode("d")` are serving instances, each with an engine of its own."""

    def __init__(self) -> None:
        self.engines: dict[str, Engine] = {}
        self.worlds: dict[str, World] = {}

    def prefill(self, name: str, *, own_port: int | None = None, dp: int = 1, **more: Any) -> Engine:
        self.worlds[name] = World(name)
        self.worlds[name].launch(Topology(dp, 1, 1, 1), first_port=4000 + 10 * len(self.worlds))
        return self._engine(name, "prefill", own_port=own_port or 18_000 + len(self.worlds), dp=dp, **more)

    def decode(self, name: str, **more: Any) -> Engine:
        World(name)
        return self._engine(name, "decode", **more)

    def set(self, name: str, **values: Any) -> None:
        Instance.objects.using(FACTS).filter(name=name).update(**values)

    def close(self) -> None:
        for engine in self.engines.values():
            engine.stop()

    def serve(self, router: Any, *, name: str = "r", instances: list[str] | None = None, **more: Any) -> None:
        """Say that `router` is to hold these instances, or all."""
        more.setdefault("metrics_url", router.metrics_url)
        routers.add(name, router.url, instances or sorted(self.engines), **more, **WHO)

    def _engine(
        self, name: str, role: str, *, own_port: int | None = None, dp: int = 1, key: str = "", given: str = ""
    ) -> Engine:
        """`key` is what the engine wants, `given` what is known of it here."""
        engine = self.engines[name] = Engine(role, dp=dp, key=key)
        engine.start()
        self.set(name, role=role, engine_url=engine.url, own_port=own_port, engine_key=seal(given))
        return engine


def told(*kinds: str, since: int = 0) -> list[EventRow]:
    """Events of routers and breakers, oldest first."""
    return [event for event in after(since) if event.kind.startswith(kinds or ("router.", "breaker."))]


def member(instance: str, router: str = "r") -> queries.MemberRow:
    return next(row for row in queries.router(router).members if row.instance == instance)
