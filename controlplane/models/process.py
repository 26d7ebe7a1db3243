"""Who may write, and which worker processes are alive."""

from django.db import models


class Lease(models.Model):
    """Leadership of the bootstrap process. `token` is the fence that every commit checks."""

    name = models.CharField(max_length=40, primary_key=True)
    token = models.BigIntegerField(default=0)
    holder = models.CharField(max_length=200, default="")
    expires_at = models.FloatField(default=0)


class WorkerLease(models.Model):
    """The last heartbeat of one worker process. Written by the bootstrap process alone."""

    worker = models.CharField(max_length=128, primary_key=True)
    instance_id = models.BigIntegerField()
    token = models.CharField(max_length=128, null=True)
    slots = models.TextField(default="")
    seen_at = models.FloatField()
    expires_at = models.FloatField()
