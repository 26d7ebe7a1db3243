from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0011_request_launch'),
    ]

    operations = [
        migrations.CreateModel(
            name='RoomLookup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('instance_id', models.BigIntegerField()),
                ('room', models.BigIntegerField(db_index=True)),
                ('asked_at', models.FloatField()),
                ('asked_by', models.CharField(max_length=64)),
                ('answered_at', models.FloatField(null=True)),
            ],
            options={
                'verbose_name': 'look-up of a room',
                'verbose_name_plural': 'look-ups of rooms',
            },
        ),
        migrations.CreateModel(
            name='RoomReport',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('room', models.BigIntegerField(db_index=True)),
                ('instance', models.CharField(max_length=100)),
                ('rung', models.CharField(max_length=12)),
                ('result', models.CharField(max_length=40)),
                ('detail', models.CharField(default='', max_length=200)),
                ('source', models.CharField(max_length=128)),
                ('speaker', models.CharField(default='', max_length=150)),
                ('launch_token', models.CharField(default='', max_length=128)),
                ('took_seconds', models.FloatField(null=True)),
                ('at', models.FloatField()),
                ('received_at', models.FloatField()),
            ],
            options={
                'verbose_name': 'report of a room',
                'verbose_name_plural': 'reports of rooms',
            },
        ),
    ]
