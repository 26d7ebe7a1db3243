"""Keeps real sglang-routers in step with the fleet."""

from celery import shared_task

from controlplane.commands import routers

from .rounds import Rounds

_rounds = Rounds()


@shared_task
def reconcile_routers() -> None:
    with _rounds.place() as place:
        if place:
            routers.reconcile()
