"""A real control plane of two processes, as an operator runs it: the bootstrap process and the web process on one database."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.plugin import Backend
from tests.support.processes import Bootstrap, manage
from tests.support.web import Web
from tests.wire.tokens import make, with_admin
from workers.sdk import ControlPlane


@dataclass
class RealPlane:
    """`kv` alone is there until `web` was started."""

    backend: Backend
    bootstrap: Bootstrap
    web: Web

    def at(self, instance: str, token: str | None = None, *, api: bool = True) -> ControlPlane:
        return ControlPlane.at(
            f"127.0.0.1:{self.bootstrap.kv_port}",
            engine=f"127.0.0.1:{self.bootstrap.engine_port}",
            api=self.web.url if api else None,
            instance=instance,
            token=token,
        )

    def token(self, name: str, *verbs: str, instance: str = "") -> str:
        return make(self.backend, name, *verbs, instance=instance)

    def command(self, *words: str) -> None:
        done = manage(*words, "--reason", "because a test asks", env=self.backend.env)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def real_plane(
    template: Path,
    directory: Path,
    *,
    web: bool = True,
    web_port: int | None = None,
    first: Callable[[RealPlane], None] | None = None,
    **knobs: Any,
) -> Iterator[RealPlane]:
    """Probes nobody, so that launches complete at once, unless `knobs` say otherwise. `first` is called before it starts."""
    data = directory / "data"
    shutil.copytree(template, data)
    backend = Backend("sqlite", data)
    bootstrap = Bootstrap(backend.env, log=directory / "bootstrap.log", **{"PDCP_PROBE_NETWORKS": "none", **knobs})
    plane = RealPlane(backend, bootstrap, Web(backend.env, log=directory / "web.log", port=web_port))
    try:
        with_admin(backend)
        if first is not None:
            first(plane)
        bootstrap.start()
        if web:
            plane.web.start()
        yield plane
    finally:
        plane.web.kill9()
        if bootstrap.started:
            bootstrap.kill9()
        print(f"--- bootstrap ---\n{bootstrap.log()[-5000:]}\n--- web ---\n{plane.web.log()[-5000:]}")
