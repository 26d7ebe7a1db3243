"""Celery tasks: thin shells around what the rest of the control plane does."""

from controlplane.tasks import housekeeping

__all__ = ["housekeeping"]
