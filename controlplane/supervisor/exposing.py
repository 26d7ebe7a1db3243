"""Opens the address at which a process of ours tells its metrics, if settings want one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.conf import settings
from django.db import connections

from controlplane.metrics.listener import Listener, Page

from . import ports


def expose(
    process: str, pages: Mapping[str, Page], *, done: Callable[[], None] = connections.close_all
) -> Listener | None:
    """Serve `pages` at PDCP_METRICS_HOST and PDCP_METRICS_<PROCESS>_PORT; None without that port. Raises ports.PortTaken."""
    variable = f"PDCP_METRICS_{process.upper()}_PORT"
    port = getattr(settings, variable)
    if port is None:
        return None
    listening = ports.listen(settings.PDCP_METRICS_HOST, port, variable=variable, backlog=16)
    listener = Listener(listening, pages, token=settings.PDCP_METRICS_TOKEN, done=done)
    listener.start()
    host, opened = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"{process} metrics at http://{shown}:{opened}/metrics", flush=True)
    return listener
