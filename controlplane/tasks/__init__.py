"""Celery tasks: thin shells around what the rest of the control plane does."""

# Celery finds tasks in this package only: a module that is not imported here has none.
from controlplane.tasks import (
    alarms,
    drains,
    exposure,
    gateways,
    health,
    housekeeping,
    observing,
    retention,
    rooms,
    routers,
    samples,
)

__all__ = [
    "alarms",
    "drains",
    "exposure",
    "gateways",
    "health",
    "housekeeping",
    "observing",
    "retention",
    "rooms",
    "routers",
    "samples",
]
