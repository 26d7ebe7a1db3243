"""The request inbox: what operators ask of the bootstrap process, which alone answers."""

from django.db import models


class Request(models.Model):
    """Written by whoever asks, with an event; answered by the bootstrap process, with an event."""

    class Kind(models.TextChoices):
        EVICT = "evict"
        SUPERSEDE = "supersede"
        READMIT = "readmit"
        REREGISTER = "reregister"
        PURGE = "purge"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    instance = models.CharField(max_length=100)
    slot = models.CharField(max_length=40, default="")
    launch = models.BigIntegerField(null=True)
    """What is asked concerns this launch only: whoever asked was shown it, and another may have begun since."""

    override = models.BooleanField(default=False, db_default=False)
    """Of a purge: also while ranks still answer."""

    actor = models.CharField(max_length=150)
    reason = models.TextField(default="")
    made_at = models.FloatField()
    answered_at = models.FloatField(null=True, db_index=True)
    granted = models.BooleanField(null=True)
    answer = models.TextField(default="")
