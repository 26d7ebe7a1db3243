"""`manage.py evict`: the request of that name, and its answer."""

from __future__ import annotations

from controlplane.management.requesting import KINDS, RequestingCommand


class Command(RequestingCommand):
    help = f"Ask the bootstrap process to {KINDS['evict']}."
    kind = "evict"
