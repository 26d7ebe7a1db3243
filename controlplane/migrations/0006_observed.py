from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0005_samples'),
    ]

    operations = [
        migrations.AddField(
            model_name='instance',
            name='observation',
            field=models.TextField(blank=True, db_default='', default=''),
        ),
        migrations.AddField(
            model_name='instance',
            name='observed_engine_info_url',
            field=models.CharField(blank=True, db_default='', default='', max_length=500),
        ),
        migrations.AddField(
            model_name='instance',
            name='observed_url',
            field=models.CharField(blank=True, db_default='', default='', max_length=500),
        ),
    ]
