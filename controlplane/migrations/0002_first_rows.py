"""The rows that exist exactly once: the ledger's head, the bootstrap lease, the traffic fence."""

import uuid

from django.db import migrations


def facts(apps, schema_editor):
    alias = schema_editor.connection.alias
    apps.get_model("controlplane", "LedgerHead").objects.using(alias).create(id=1, ledger_id=str(uuid.uuid4()), revision=0)
    apps.get_model("controlplane", "Lease").objects.using(alias).create(name="bootstrap")


def traffic(apps, schema_editor):
    apps.get_model("controlplane", "TrafficFence").objects.using(schema_editor.connection.alias).create(id=1)


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0001_initial")]

    operations = [
        migrations.RunPython(facts, migrations.RunPython.noop, hints={"traffic": False}),
        migrations.RunPython(traffic, migrations.RunPython.noop, hints={"traffic": True}),
    ]
