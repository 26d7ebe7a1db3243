from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0012_evidence'),
    ]

    operations = [
        migrations.CreateModel(
            name='ReportBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run', models.CharField(max_length=32)),
                ('source', models.CharField(max_length=128)),
                ('number', models.BigIntegerField()),
                ('kept', models.IntegerField()),
                ('left_out', models.IntegerField()),
                ('received_at', models.FloatField()),
            ],
            options={
                'verbose_name': 'last batch of reports',
                'verbose_name_plural': 'last batches of reports',
                'constraints': [models.UniqueConstraint(fields=('run', 'source'), name='one_batch_a_run')],
            },
        ),
    ]
