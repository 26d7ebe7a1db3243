"""What is kept of the past: stored states of the fleet, launches that ended, instances that were purged, what was trimmed."""

from django.db import models


class StoredState(models.Model):
    """The fleet right after event `revision`: older events may go, and "as of" is told from here on.

    Written by the clockwork; its parts are there before it is.
    """

    revision = models.BigIntegerField(primary_key=True)
    # When that event was written.
    at = models.FloatField()
    stored_at = models.FloatField()
    parts = models.PositiveIntegerField()
    size_bytes = models.PositiveBigIntegerField()


class StoredPart(models.Model):
    """One instance of a stored state, or (without a name) its gateways and routers: JSON, zlib-compressed."""

    revision = models.BigIntegerField()
    instance = models.CharField(max_length=100, default="")
    compressed = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["revision", "instance"], name="part_of_state")]


class ArchivedLaunch(models.Model):
    """A launch that ended, with its ranks, taken out of the directory's tables. Written by the clockwork, once.

    `ranks`: JSON, zlib-compressed; a list of {slot, ip, port, first_at, seen_at, left_at, left_reason}.
    """

    instance_id = models.BigIntegerField()
    instance = models.CharField(max_length=100, db_index=True)
    number = models.PositiveIntegerField()
    # What it was when it ended: replaced, dropped.
    state = models.CharField(max_length=10)
    # The launch that took its place, if one has; of one that never was whole nobody did.
    replaced_by = models.PositiveIntegerField(null=True)
    token = models.CharField(max_length=128, null=True)
    dp = models.PositiveIntegerField()
    cp = models.PositiveIntegerField()
    tp = models.PositiveIntegerField()
    pp = models.PositiveIntegerField()
    facts = models.TextField()
    opened_at = models.FloatField()
    completed_at = models.FloatField(null=True)
    unchecked = models.BooleanField(default=False)
    ended_at = models.FloatField(db_index=True)
    ended_reason = models.TextField(default="")
    # First and last registration of any of its ranks; None when nobody had registered.
    first_seen_at = models.FloatField(null=True)
    last_seen_at = models.FloatField(null=True)
    rank_count = models.PositiveIntegerField()
    # How many of them had not left when it ended.
    registered = models.PositiveIntegerField()
    ranks = models.BinaryField()
    archived_at = models.FloatField()

    class Meta:
        verbose_name_plural = "archived launches"
        constraints = [models.UniqueConstraint(fields=["instance_id", "number"], name="archived_launch_number")]


class PurgedInstance(models.Model):
    """An instance that was purged, so that its number still has a name. Written by the bootstrap process, with its event."""

    instance_id = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=100)
    role = models.CharField(max_length=10)
    created_at = models.FloatField()
    retired_at = models.FloatField(null=True)
    purged_at = models.FloatField(db_index=True)
    actor = models.CharField(max_length=150)
    reason = models.TextField(default="")
    # Whether ranks of it still answered, and that was overridden.
    override = models.BooleanField(default=False)


class Trimmed(models.Model):
    """How much of one subject has gone because it was old. Written by the clockwork, when some did."""

    subject = models.CharField(max_length=40, primary_key=True)
    at = models.FloatField()
    count = models.PositiveBigIntegerField()
    total = models.PositiveBigIntegerField()

    class Meta:
        verbose_name_plural = "trimmed"
