"""Who may write, and which worker processes are alive."""

from django.db import models


class Lease(models.Model):
    """Leadership of the bootstrap process. `token` is the fence that every commit checks."""

    name = models.CharField(max_length=40, primary_key=True)
    token = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=200, default="")
    expires_at = models.FloatField(default=0)


class WorkerLease(models.Model):
    """The last heartbeat of one worker process. Written by the bootstrap process alone, in SQL of its own: a new column
    needs a default in the database."""

    worker = models.CharField(max_length=128, primary_key=True)
    instance_id = models.BigIntegerField(db_index=True)
    token = models.CharField(max_length=128, null=True)
    slots = models.TextField(default="")
    seen_at = models.FloatField()
    expires_at = models.FloatField()
    # Since when it is late: its lease was over, and it has not been heard from since. Its ranks may well answer.
    late_since = models.FloatField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["late_since"], name="late_workers", condition=models.Q(late_since__isnull=False))
        ]
