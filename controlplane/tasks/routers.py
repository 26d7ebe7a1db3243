"""Keeps real sglang-routers in step with the fleet."""

from celery import shared_task

from controlplane.commands import routers


@shared_task
def reconcile_routers() -> None:
    routers.reconcile()
