from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0008_clockwork'),
    ]

    operations = [
        migrations.CreateModel(
            name='ArchivedLaunch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('instance_id', models.BigIntegerField()),
                ('instance', models.CharField(db_index=True, max_length=100)),
                ('number', models.PositiveIntegerField()),
                ('state', models.CharField(max_length=10)),
                ('replaced_by', models.PositiveIntegerField(null=True)),
                ('token', models.CharField(max_length=128, null=True)),
                ('dp', models.PositiveIntegerField()),
                ('cp', models.PositiveIntegerField()),
                ('tp', models.PositiveIntegerField()),
                ('pp', models.PositiveIntegerField()),
                ('facts', models.TextField()),
                ('opened_at', models.FloatField()),
                ('completed_at', models.FloatField(null=True)),
                ('unchecked', models.BooleanField(default=False)),
                ('ended_at', models.FloatField(db_index=True)),
                ('ended_reason', models.TextField(default='')),
                ('first_seen_at', models.FloatField(null=True)),
                ('last_seen_at', models.FloatField(null=True)),
                ('rank_count', models.PositiveIntegerField()),
                ('registered', models.PositiveIntegerField()),
                ('ranks', models.BinaryField()),
                ('archived_at', models.FloatField()),
            ],
            options={
                'verbose_name_plural': 'archived launches',
                'constraints': [models.UniqueConstraint(fields=('instance_id', 'number'), name='archived_launch_number')],
            },
        ),
        migrations.CreateModel(
            name='PurgedInstance',
            fields=[
                ('instance_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('role', models.CharField(max_length=10)),
                ('created_at', models.FloatField()),
                ('retired_at', models.FloatField(null=True)),
                ('purged_at', models.FloatField(db_index=True)),
                ('actor', models.CharField(max_length=150)),
                ('reason', models.TextField(default='')),
                ('override', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='RoomReuse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('instance_id', models.BigIntegerField()),
                ('room', models.BigIntegerField()),
                ('before', models.PositiveIntegerField()),
                ('after', models.PositiveIntegerField()),
                ('over', models.CharField(choices=[('expired', 'Expired'), ('evicted', 'Evicted')], max_length=10)),
                ('expired_at', models.FloatField()),
                ('at', models.FloatField(db_index=True)),
            ],
            options={
                'verbose_name': 'reuse of a room',
                'verbose_name_plural': 'reuses of rooms',
            },
        ),
        migrations.CreateModel(
            name='StoredPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('revision', models.BigIntegerField()),
                ('instance', models.CharField(default='', max_length=100)),
                ('compressed', models.BinaryField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('revision', 'instance'), name='part_of_state')],
            },
        ),
        migrations.CreateModel(
            name='StoredState',
            fields=[
                ('revision', models.BigIntegerField(primary_key=True, serialize=False)),
                ('at', models.FloatField()),
                ('stored_at', models.FloatField()),
                ('parts', models.PositiveIntegerField()),
                ('size_bytes', models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='Trimmed',
            fields=[
                ('subject', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('at', models.FloatField()),
                ('count', models.PositiveBigIntegerField()),
                ('total', models.PositiveBigIntegerField()),
            ],
            options={
                'verbose_name_plural': 'trimmed',
            },
        ),
        migrations.AddField(
            model_name='request',
            name='override',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name='request',
            name='kind',
            field=models.CharField(choices=[('evict', 'Evict'), ('supersede', 'Supersede'), ('readmit', 'Readmit'), ('reregister', 'Reregister'), ('purge', 'Purge')], max_length=10),
        ),
        # Ended launches are looked for once a minute.
        migrations.AddIndex(
            model_name='launch',
            index=models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='launch_ended'),
        ),
    ]
