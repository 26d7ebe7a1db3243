"""Celery tasks: thin shells around what the rest of the control plane does."""

# Celery finds tasks in this package only: a module that is not imported here has none.
from controlplane.tasks import drains, gateways, housekeeping, observing, pulse, rooms, routers, samples

__all__ = ["drains", "gateways", "housekeeping", "observing", "pulse", "rooms", "routers", "samples"]
