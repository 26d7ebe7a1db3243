"""The groups whose members may look, operate and administer."""

from django.db import migrations

ROLES = ("viewer", "operator", "admin")


def roles(apps, schema_editor):
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0003_operating"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [migrations.RunPython(roles, migrations.RunPython.noop, hints={"traffic": False})]
