"""Databases made while `0003_operating` was still being written lack two of its columns; all others are left alone."""

from django.db import migrations

CAME_LATER = (("instance", "late"), ("gateway", "joined_by"))


def complete(apps, schema_editor):
    connection = schema_editor.connection
    for model_name, field_name in CAME_LATER:
        model = apps.get_model("controlplane", model_name)
        field = model._meta.get_field(field_name)
        with connection.cursor() as cursor:
            table = connection.introspection.get_table_description(cursor, model._meta.db_table)
        if field.column not in {column.name for column in table}:
            schema_editor.add_field(model, field)
        # SQLite makes a table anew to change it, and takes the quoted name of a column that is not there for a text.
        model.objects.using(connection.alias).filter(**{field_name: field.column}).update(**{field_name: ""})


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0014_explain")]

    operations = [migrations.RunPython(complete, migrations.RunPython.noop, hints={"traffic": False})]
