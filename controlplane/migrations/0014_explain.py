from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0013_report_batch'),
    ]

    operations = [
        migrations.AddField(
            model_name='enginehealth',
            name='held',
            field=models.CharField(blank=True, db_default='', default='', max_length=300),
        ),
        migrations.AddField(
            model_name='enginehealth',
            name='holder',
            field=models.CharField(blank=True, db_default='', default='', max_length=20),
        ),
        migrations.AddField(
            model_name='enginehealth',
            name='held_at',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='router',
            name='breakers_at',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='routermember',
            name='healthy',
            field=models.BooleanField(null=True),
        ),
    ]
