"""`manage.py request`: ask the bootstrap process to change who is registered, and print its answer."""

from __future__ import annotations

from controlplane.management.requesting import KINDS, RequestingCommand


class Command(RequestingCommand):
    help = "Ask the bootstrap process: " + "; ".join(f"{kind} = {what}" for kind, what in KINDS.items()) + "."
