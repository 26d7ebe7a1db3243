"""The clockwork: what is scheduled exists, and what exists is found."""

import pkgutil

from django.conf import settings

from controlplane import tasks
from controlplane.celery import app


def test_every_scheduled_task_exists_and_its_messages_outlast_clocks_that_differ():
    app.loader.import_default_modules()
    for name, entry in settings.CELERY_BEAT_SCHEDULE.items():
        assert entry["task"] in app.tasks, name
        assert entry["options"]["expires"] >= max(300, entry["schedule"]), name
    # What a killed worker had not acknowledged is given out again, and has expired by then, if it is due often.
    assert settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"] > settings.MESSAGES_LAST_SECONDS


def test_every_module_of_tasks_is_found_by_celery():
    # The rest is what tasks, beat and workers are made of.
    rest = {"turns", "process", "beat", "keeper"}
    assert {module.name for module in pkgutil.iter_modules(tasks.__path__)} == {*tasks.__all__, *rest}
