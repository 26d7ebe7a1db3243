"""The Celery application: the clockwork. What runs when is in settings.py."""

import os
import sys
from typing import Any

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("controlplane", task_cls="controlplane.tasks.turns:Round")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["controlplane"])
app.steps["worker"].add("controlplane.tasks.keeper:Keeper")


@signals.setup_logging.connect
def _log_as_the_other_processes_do(**_: Any) -> None:
    """Settings configured logging already; a receiver here keeps Celery from replacing that."""


@signals.worker_init.connect
@signals.beat_init.connect
def _refuse_without_a_broker(**_: Any) -> None:
    from django.conf import settings

    if not settings.REDIS_URL:
        print(
            "error: REDIS_URL is not set and no embedded Redis runs in PDCP_DATA_DIR; "
            "start `manage.py up`, or set REDIS_URL.",
            file=sys.stderr,
        )
        raise SystemExit(2)


@signals.worker_ready.connect
def _say_ready(**_: Any) -> None:
    print(f"celery ready pid={os.getpid()}", flush=True)
