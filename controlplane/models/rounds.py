"""What the clockwork does: the newest round of each periodic task, and what failed lately. Times are epoch seconds."""

from django.db import models


class TaskRound(models.Model):
    """One periodic task: its newest round, and the last one that ended. One row a task, written by the Celery workers
    that run it, by compare-and-set on `number`: whoever sets it has the round, and nobody else.

    On PostgreSQL `began_at` is the database's own clock, so that workers on different hosts agree.
    """

    traffic = True

    class Outcome(models.TextChoices):
        OK = "ok"
        FAILED = "failed"
        # Begun and never ended: its process is gone, or it took longer than it may.
        LOST = "lost"

    task = models.CharField(max_length=100, primary_key=True)
    every_seconds = models.FloatField()
    # A round that is not over after so long is given up, and the next may begin.
    within_seconds = models.FloatField()
    number = models.BigIntegerField(default=0)
    began_at = models.FloatField(null=True)
    # Who runs it, for people, and so that another process on that host can see that it is gone; who sent it (beat).
    ran_by = models.CharField(max_length=200, default="")
    holder = models.CharField(max_length=200, default="")
    sent_by = models.CharField(max_length=200, default="")
    # The newest round that ended. With `number` larger than this, one is under way.
    done = models.BigIntegerField(default=0)
    ended_at = models.FloatField(null=True)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default="", blank=True)
    took_seconds = models.FloatField(null=True)
    error = models.TextField(default="", blank=True)
    # Of the last that ended well; how many have failed or were lost since, and since when.
    ok_at = models.FloatField(null=True)
    failures = models.PositiveIntegerField(default=0)
    failing_since = models.FloatField(null=True)


class TaskFailure(models.Model):
    """Rounds of one task that failed alike, one after another: the newest few of each task are kept. Written by the
    workers, with the round."""

    traffic = True

    task = models.CharField(max_length=100, db_index=True)
    outcome = models.CharField(max_length=10, choices=TaskRound.Outcome.choices)
    error = models.TextField(default="")
    ran_by = models.CharField(max_length=200, default="")
    # The newest of them.
    number = models.BigIntegerField()
    since = models.FloatField()
    at = models.FloatField()
    count = models.PositiveIntegerField(default=1)
