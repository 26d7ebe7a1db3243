from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0006_observed"),
    ]

    operations = [
        migrations.CreateModel(
            name="EngineHealth",
            fields=[
                ("instance_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("version", models.PositiveIntegerField(default=1)),
                ("at", models.CharField(max_length=500)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("unknown", "unknown"),
                            ("starting", "starting"),
                            ("up", "up"),
                            ("late", "late"),
                            ("silent", "silent"),
                            ("down", "down"),
                            ("stranger", "stranger"),
                        ],
                        max_length=10,
                    ),
                ),
                ("why", models.CharField(default="", max_length=20)),
                ("since", models.FloatField()),
                ("asked_at", models.FloatField(null=True)),
                ("answered_at", models.FloatField(null=True)),
                ("proof_at", models.FloatField(null=True)),
                ("status", models.PositiveIntegerField(null=True)),
                ("took", models.FloatField(null=True)),
                ("error", models.TextField(default="")),
                ("error_at", models.FloatField(null=True)),
                ("computed_at", models.FloatField(null=True)),
                ("fails", models.PositiveIntegerField(default=0)),
                ("passes", models.PositiveIntegerField(default=0)),
                ("served", models.BooleanField(default=False)),
                ("identity", models.CharField(default="", max_length=100)),
                ("said", models.TextField(default="{}")),
                ("identified_at", models.FloatField(null=True)),
                ("load", models.TextField(default="{}")),
                ("load_at", models.FloatField(null=True)),
                ("withheld_since", models.FloatField(null=True)),
            ],
            options={
                "verbose_name_plural": "engine health",
            },
        ),
        migrations.CreateModel(
            name="Suspicion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("instance_id", models.BigIntegerField(unique=True)),
                ("instance", models.CharField(max_length=100)),
                ("at", models.FloatField(db_index=True)),
                ("by", models.CharField(max_length=150)),
                ("reason", models.TextField(default="")),
            ],
        ),
        migrations.AddField(
            model_name="engineinfo",
            name="contact",
            field=models.CharField(db_default="", default="", max_length=10),
        ),
        migrations.AddField(
            model_name="instance",
            name="probe_seconds",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="instance",
            name="fail_after",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="instance",
            name="pass_after",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
