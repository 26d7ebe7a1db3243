"""What needs a person for long enough to be told, since when, until when; and who was told of it. Times: epoch seconds."""

from django.db import models


class Alarm(models.Model):
    """Pending until `raised_at`, then open until `resolved_at`. Written by the alarm task alone, but for
    `acknowledged_*`, which operators' commands write. What is pending and goes away is deleted."""

    class Severity(models.TextChoices):
        CRITICAL = "critical"
        WARNING = "warning"
        INFO = "info"

    key = models.CharField(max_length=400)
    severity = models.CharField(max_length=10, choices=Severity.choices)
    state = models.CharField(max_length=20)
    # Where it leads: a kind of page, and the name or id of what that shows; `to_*` for the next step.
    kind = models.CharField(max_length=20)
    place = models.CharField(max_length=250, default="")
    # Blank for what is not about one instance.
    instance = models.CharField(max_length=100, default="", db_index=True)
    name = models.CharField(max_length=400)
    what = models.TextField()
    why = models.TextField(default="")
    next = models.TextField()
    step = models.CharField(max_length=100)
    to_kind = models.CharField(max_length=20)
    to_place = models.CharField(max_length=250, default="")
    count = models.PositiveIntegerField(default=1)
    since = models.FloatField(null=True)
    began_at = models.FloatField()
    raised_at = models.FloatField(null=True)
    # Its cause is gone since then, and may come back.
    clear_since = models.FloatField(null=True)
    resolved_at = models.FloatField(null=True, db_index=True)
    # How often the cause came back.
    returns = models.PositiveIntegerField(default=0)
    acknowledged_at = models.FloatField(null=True)
    acknowledged_by = models.CharField(max_length=150, default="")
    acknowledged_reason = models.TextField(default="")
    # The severity and the count that the webhook was told last; blank: it was told nothing.
    told = models.CharField(max_length=10, default="")
    told_count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key"], condition=models.Q(resolved_at=None), name="one_alarm_of_a_key")
        ]


class AlarmNotice(models.Model):
    """One message to the webhook: written with the change that it tells of, so that nothing is lost between the two, and
    sent as it is, again and again, until it is taken. Written by the alarm task, and by whoever acknowledges."""

    class State(models.TextChoices):
        WAITING = "waiting"
        DELIVERED = "delivered"
        REFUSED = "refused"
        GIVEN_UP = "given_up"

    # What the receiver tells a repetition by.
    notice = models.CharField(max_length=36, unique=True)
    alarm_id = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=12)
    body = models.TextField()
    made_at = models.FloatField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    # Whoever sends sets it ahead first: nobody else sends it meanwhile, and if he dies, somebody does after that.
    due_at = models.FloatField()
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveIntegerField(null=True)
    problem = models.TextField(default="")
    took_seconds = models.FloatField(null=True)
    ended_at = models.FloatField(null=True)

    class Meta:
        indexes = [models.Index(fields=["state", "id"], name="notice_by_state")]


class AlarmDesk(models.Model):
    """The only row (id 1): whoever changes alarms holds it. `decided_at`: what the last round went by; an older one is
    left out."""

    decided_at = models.FloatField(default=0)
