"""What a database that already holds something is given by `manage.py migrate_all`."""

import fcntl
import hashlib
import os
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, connections

from controlplane import databases
from controlplane.commands import gateways, instances
from controlplane.management.commands.migrate_all import ONE_AT_A_TIME
from controlplane.models import Gateway, Instance
from tests.controlplane.commands.on_backend import on_backend

__all__ = ["on_backend"]

MIGRATIONS = Path(__file__).parents[2] / "controlplane/migrations"
LANDED = {
    "0001_initial.py": "3d7c879b76809c61",
    "0002_first_rows.py": "cd828e68bb904942",
    "0003_operating.py": "ec32cb47da16a1d0",
    "0004_roles.py": "5d78351377673100",
    "0005_samples.py": "07142494159caffd",
    "0006_observed.py": "b6044ff97496e3a8",
    "0007_engine_health.py": "fa5d8443aa2db14e",
    "0008_clockwork.py": "3234700cb2e8d9a2",
    "0009_archive.py": "7e06c7e1ccb07a18",
    "0010_alarms.py": "ce8e295f34f1918d",
    "0011_request_launch.py": "bce3de49accaad83",
    "0012_evidence.py": "af57b3f92fb8ebb7",
    "0013_report_batch.py": "3e6daedf22c40eb1",
    "0014_explain.py": "9168852966cccfa1",
    "0015_early_databases.py": "178d10d17eaafeb3",
    "0016_listener_index.py": "457d2768ffd27ee1",
}
"""What was committed is in somebody's database: it is not changed any more, another migration is added."""


def test_a_migration_that_others_have_applied_is_never_edited():
    files = [file for file in MIGRATIONS.glob("*.py") if file.name != "__init__.py"]
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}
    assert found == LANDED


@pytest.mark.parametrize("later", ["missing", "taken for a text"])
def test_a_database_from_before_two_columns_were_added_to_an_old_migration_gets_them(on_backend, later):
    instances.add("prefill-a", actor="anna")
    gateways.join("g1", actor="anna")
    complete = import_module("controlplane.migrations.0015_early_databases").complete
    late, joined_by = Instance._meta.get_field("late"), Gateway._meta.get_field("joined_by")
    if later == "missing":
        with connection.schema_editor() as editor:
            editor.remove_field(Instance, late)
            editor.remove_field(Gateway, joined_by)
    else:
        Instance.objects.update(late="late")
    with connection.schema_editor() as editor:
        complete(apps, editor)
    assert Instance.objects.get().late == ""
    assert Gateway.objects.get().joined_by == ("" if later == "missing" else "anna")


def test_of_several_that_migrate_at_once_one_does_it_and_the_others_wait(on_backend):
    """As replicas do that migrate before they start."""
    ended: list[str] = []

    def migrate() -> None:
        try:
            call_command("migrate_all", verbosity=0)
            ended.append("done")
        finally:
            connections.close_all()

    other = threading.Thread(target=migrate)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [ONE_AT_A_TIME])
            other.start()
            waiting, end = 0, time.monotonic() + 60
            while not waiting and time.monotonic() < end:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
                waiting = cursor.fetchone()[0]
            assert waiting == 1 and not ended
            cursor.execute("SELECT pg_advisory_unlock(%s)", [ONE_AT_A_TIME])
    else:
        directory = os.open(on_backend.data_dir, os.O_RDONLY)
        fcntl.flock(directory, fcntl.LOCK_EX)
        other.start()
        other.join(0.2)
        assert not ended
        os.close(directory)
    other.join(60)
    assert ended == ["done"]


def test_a_database_that_cannot_be_there_is_a_sentence(monkeypatch, tmp_path):
    nowhere = databases.from_url(f"sqlite:///{tmp_path}/no/such/place.sqlite3", data_dir=tmp_path, synchronous="NORMAL")
    monkeypatch.setitem(connection.settings_dict, "NAME", nowhere["default"]["NAME"])
    with pytest.raises(CommandError, match="the database cannot be used"):
        call_command("migrate_all", verbosity=0)
