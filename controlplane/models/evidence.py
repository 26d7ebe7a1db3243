"""What is known of the way of single rooms: what workers told, and who asked the bootstrap process for them."""

from django.db import models


class RoomReport(models.Model):
    """A rung that a room reached, or failed at, as a worker tells. Appended by the API, trimmed by Celery."""

    traffic = True

    room = models.BigIntegerField(db_index=True)
    # The prefill, by its name: who tells of it may be a decode that knows no more of it.
    instance = models.CharField(max_length=100)
    rung = models.CharField(max_length=12)
    result = models.CharField(max_length=40)
    detail = models.CharField(max_length=200, default="")
    source = models.CharField(max_length=128)
    # Who was signed in: a source is named by itself.
    speaker = models.CharField(max_length=150, default="")
    launch_token = models.CharField(max_length=128, default="")
    took_seconds = models.FloatField(null=True)
    # By our clock: reports carry their age, never a time of day.
    at = models.FloatField()
    received_at = models.FloatField()

    class Meta:
        verbose_name = "report of a room"
        verbose_name_plural = "reports of rooms"


class RoomLookup(models.Model):
    """A room was asked for, and told from when `answered_at` says. Appended by the bootstrap process, trimmed by Celery."""

    traffic = True

    instance_id = models.BigIntegerField()
    room = models.BigIntegerField(db_index=True)
    asked_at = models.FloatField()
    asked_by = models.CharField(max_length=64)
    answered_at = models.FloatField(null=True)

    class Meta:
        verbose_name = "look-up of a room"
        verbose_name_plural = "look-ups of rooms"


class ReportBatch(models.Model):
    """The last batch that one run of a worker process told, so that one whose answer was lost is not counted twice. Written
    with its reports by the API, trimmed by Celery."""

    traffic = True

    # Made up by each run of the process anew: its batches are numbered from one again.
    run = models.CharField(max_length=32)
    source = models.CharField(max_length=128)
    number = models.BigIntegerField()
    kept = models.IntegerField()
    left_out = models.IntegerField()
    received_at = models.FloatField()

    class Meta:
        verbose_name = "last batch of reports"
        verbose_name_plural = "last batches of reports"
        constraints = [models.UniqueConstraint(fields=["run", "source"], name="one_batch_a_run")]
