"""The clockwork: what is scheduled exists, and what exists is found."""

import pkgutil

from django.conf import settings

from controlplane import tasks
from controlplane.celery import app


def test_every_scheduled_task_exists_and_none_piles_up():
    app.loader.import_default_modules()
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        assert entry["task"] in app.tasks, name
        assert entry["options"]["expires"] <= entry["schedule"], name


def test_every_module_of_tasks_is_found_by_celery():
    # The rest is what tasks, beat and workers are made of.
    rest = {"turns", "process", "beat", "keeper"}
    assert {module.name for module in pkgutil.iter_modules(tasks.__path__)} == {*tasks.__all__, *rest}
