"""Keeps real sglang-routers in step with the fleet."""

from celery import shared_task

from controlplane.commands import routers


# A round takes two seconds when somebody does not answer: meanwhile the next ones go on with the others.
@shared_task(at_once=3, within_seconds=30.0)
def reconcile_routers() -> None:
    routers.reconcile()
