"""What operators want of instances and DP groups, and what is seen of a drain."""

from django.db import models

ALL_GROUPS = -1
"""In `group` columns: the whole instance, not one DP group of it."""


class GroupIntent(models.Model):
    """The intent for one DP group; a group without a row is enabled. Written by operators' commands alone.

    The intent for the whole instance stands in `Instance`; its `version` counts changes of both.
    """

    class Intent(models.TextChoices):
        ENABLED = "enabled"
        CORDONED = "cordoned"
        DRAINING = "draining"

    instance_id = models.BigIntegerField()
    group = models.IntegerField()
    intent = models.CharField(max_length=10, choices=Intent.choices)
    actor = models.CharField(max_length=150)
    reason = models.TextField(default="")
    at = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["instance_id", "group"], name="intent_of_group")]


class Drain(models.Model):
    """One drain of an instance (`group` −1) or of a DP group. Begun, cancelled and forced by operators' commands;
    `progress` and what was seen are written by the drain task alone. Times are epoch seconds."""

    class Progress(models.TextChoices):
        WAITING = "waiting"
        EMPTY = "empty"
        DRAINED = "drained"
        OVERDUE = "overdue"
        FORCED = "forced"
        CANCELLED = "cancelled"

    instance_id = models.BigIntegerField(db_index=True)
    instance = models.CharField(max_length=100)
    group = models.IntegerField(default=ALL_GROUPS)
    # The launch that was current when it began: what "safe to delete" is about. None: nobody was registered.
    launch = models.PositiveIntegerField(null=True)
    progress = models.CharField(max_length=10, choices=Progress.choices, default=Progress.WAITING)
    actor = models.CharField(max_length=150)
    reason = models.TextField(default="")
    started_at = models.FloatField()
    deadline_at = models.FloatField(null=True)
    min_ready = models.PositiveIntegerField(default=0)
    # The revision that asked to stop admission, and the ledger in which it did: what every gateway must acknowledge.
    cordon_revision = models.BigIntegerField()
    cordon_ledger = models.CharField(max_length=36, default="")
    # The newest room binding when it began: a later one is a late admission.
    rooms_mark = models.BigIntegerField(default=0)
    # Last readings of each witness, as JSON, and the sentences that say what it waits for, as a JSON list.
    seen = models.TextField(default="{}")
    blockers = models.TextField(default="[]")
    checked_at = models.FloatField(null=True)
    empty_at = models.FloatField(null=True)
    ended_at = models.FloatField(null=True)
    ended_reason = models.TextField(default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["instance_id", "group"], condition=models.Q(ended_at=None), name="one_drain_at_a_time"
            )
        ]
