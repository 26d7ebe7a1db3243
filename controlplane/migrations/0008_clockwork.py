from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0007_engine_health'),
    ]

    operations = [
        migrations.CreateModel(
            name='TaskFailure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.CharField(db_index=True, max_length=100)),
                ('outcome', models.CharField(choices=[('ok', 'Ok'), ('failed', 'Failed'), ('lost', 'Lost')], max_length=10)),
                ('error', models.TextField(default='')),
                ('ran_by', models.CharField(default='', max_length=200)),
                ('number', models.BigIntegerField()),
                ('since', models.FloatField()),
                ('at', models.FloatField()),
                ('count', models.PositiveIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name='TaskRound',
            fields=[
                ('task', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('every_seconds', models.FloatField()),
                ('within_seconds', models.FloatField()),
                ('number', models.BigIntegerField(default=0)),
                ('began_at', models.FloatField(null=True)),
                ('ran_by', models.CharField(default='', max_length=200)),
                ('holder', models.CharField(default='', max_length=200)),
                ('sent_by', models.CharField(default='', max_length=200)),
                ('done', models.BigIntegerField(default=0)),
                ('ended_at', models.FloatField(null=True)),
                ('outcome', models.CharField(blank=True, choices=[('ok', 'Ok'), ('failed', 'Failed'), ('lost', 'Lost')], default='', max_length=10)),
                ('took_seconds', models.FloatField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('ok_at', models.FloatField(null=True)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('failing_since', models.FloatField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name='workerlease',
            name='late_since',
            field=models.FloatField(null=True),
        ),
        migrations.AlterField(
            model_name='workerlease',
            name='instance_id',
            field=models.BigIntegerField(db_index=True),
        ),
        migrations.AddIndex(
            model_name='workerlease',
            index=models.Index(condition=models.Q(('late_since__isnull', False)), fields=['late_since'], name='late_workers'),
        ),
    ]
