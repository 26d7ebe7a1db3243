from django.db import migrations, models


def desk(apps, schema_editor):
    apps.get_model("controlplane", "AlarmDesk").objects.using(schema_editor.connection.alias).create(id=1)


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0009_archive'),
    ]

    operations = [
        migrations.CreateModel(
            name='AlarmDesk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('decided_at', models.FloatField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='Alarm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=400)),
                ('severity', models.CharField(choices=[('critical', 'Critical'), ('warning', 'Warning'), ('info', 'Info')], max_length=10)),
                ('state', models.CharField(max_length=20)),
                ('kind', models.CharField(max_length=20)),
                ('place', models.CharField(default='', max_length=250)),
                ('instance', models.CharField(db_index=True, default='', max_length=100)),
                ('name', models.CharField(max_length=400)),
                ('what', models.TextField()),
                ('why', models.TextField(default='')),
                ('next', models.TextField()),
                ('step', models.CharField(max_length=100)),
                ('to_kind', models.CharField(max_length=20)),
                ('to_place', models.CharField(default='', max_length=250)),
                ('count', models.PositiveIntegerField(default=1)),
                ('since', models.FloatField(null=True)),
                ('began_at', models.FloatField()),
                ('raised_at', models.FloatField(null=True)),
                ('clear_since', models.FloatField(null=True)),
                ('resolved_at', models.FloatField(db_index=True, null=True)),
                ('returns', models.PositiveIntegerField(default=0)),
                ('acknowledged_at', models.FloatField(null=True)),
                ('acknowledged_by', models.CharField(default='', max_length=150)),
                ('acknowledged_reason', models.TextField(default='')),
                ('told', models.CharField(default='', max_length=10)),
                ('told_count', models.PositiveIntegerField(default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(condition=models.Q(('resolved_at', None)), fields=('key',), name='one_alarm_of_a_key')],
            },
        ),
        migrations.CreateModel(
            name='AlarmNotice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('notice', models.CharField(max_length=36, unique=True)),
                ('alarm_id', models.BigIntegerField(db_index=True)),
                ('kind', models.CharField(max_length=12)),
                ('body', models.TextField()),
                ('made_at', models.FloatField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('refused', 'Refused'), ('given_up', 'Given Up')], default='waiting', max_length=10)),
                ('due_at', models.FloatField()),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('status', models.PositiveIntegerField(null=True)),
                ('problem', models.TextField(default='')),
                ('took_seconds', models.FloatField(null=True)),
                ('ended_at', models.FloatField(null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['state', 'id'], name='notice_by_state')],
            },
        ),
        migrations.RunPython(desk, migrations.RunPython.noop, hints={"traffic": False}),
    ]
