"""`manage.py bootstrap`: serve SGLang's bootstrap wires, or stand by for the process that does."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.bootstrap.listeners import PortTaken
from controlplane.supervisor import ports
from controlplane.supervisor.ports import holder_of

EXIT_PORT_TAKEN = 3


class Command(BaseCommand):
    # They would import every page and the whole API: 35 MB and 0.3 s for nothing that is served here.
    requires_system_checks: list[str] = []
    help = "Serve the KV bootstrap and engine-info wires (PDCP_KV_PORT, PDCP_ENGINE_INFO_PORT)."

    def handle(self, *args: Any, **options: Any) -> None:
        import uvloop

        from controlplane.bootstrap.process import serve

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        except ports.PortTaken as taken:
            self.stderr.write(str(taken))
            sys.exit(EXIT_PORT_TAKEN)
        except PortTaken as taken:
            holder = holder_of(taken.port)
            by = f" by {holder}" if holder else ""
            self.stderr.write(
                f"port {taken.port} on {taken.host} is already taken{by}; stop that process, or set"
                f" {taken.variable} to a free port"
            )
            sys.exit(EXIT_PORT_TAKEN)
