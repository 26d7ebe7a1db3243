"""The request inbox: what operators ask of the bootstrap process, which alone answers."""

from django.db import models


class Request(models.Model):
    """Written by whoever asks, with an event; answered by the bootstrap process, with an event."""

    class Kind(models.TextChoices):
        EVICT = "evict"
        SUPERSEDE = "supersede"
        READMIT = "readmit"
        REREGISTER = "reregister"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    instance = models.CharField(max_length=100)
    slot = models.CharField(max_length=40, default="")
    actor = models.CharField(max_length=150)
    reason = models.TextField(default="")
    made_at = models.FloatField()
    answered_at = models.FloatField(null=True, db_index=True)
    granted = models.BooleanField(null=True)
    answer = models.TextField(default="")
