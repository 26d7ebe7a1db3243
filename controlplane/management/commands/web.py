"""`manage.py web`: the web process."""

import contextlib
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.supervisor import ports
from controlplane.supervisor.exposing import expose
from controlplane.web import server
from controlplane.web.metrics import PAGES


class Command(BaseCommand):
    help = "Serve pages, API and admin on PDCP_WEB_HOST:PDCP_WEB_PORT."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            listener = ports.listen(settings.PDCP_WEB_HOST, settings.PDCP_WEB_PORT, variable="PDCP_WEB_PORT")
            expose("web", PAGES)
        except ports.PortTaken as taken:
            raise CommandError(str(taken), returncode=ports.EXIT_PORT_TAKEN) from None
        with contextlib.suppress(KeyboardInterrupt):
            server.serve(listener)
