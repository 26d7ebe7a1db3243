from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0010_alarms'),
    ]

    operations = [
        migrations.AddField(
            model_name='request',
            name='launch',
            field=models.BigIntegerField(null=True),
        ),
    ]
