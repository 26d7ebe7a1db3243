"""Request-rate data, in a database of its own. Appended by the bootstrap process, trimmed by Celery once expired."""

from django.db import models


class RoomBinding(models.Model):
    """A journal: the last row of a room counts. Appending is what keeps it fast; the sweep cuts the head."""

    traffic = True

    instance_id = models.BigIntegerField()
    room = models.BigIntegerField()
    dp = models.PositiveIntegerField()
    expires_ms = models.BigIntegerField()


class RoomCollision(models.Model):
    """A room bound to another rank while its first binding was alive."""

    traffic = True

    instance_id = models.BigIntegerField()
    room = models.BigIntegerField()
    before = models.PositiveIntegerField()
    after = models.PositiveIntegerField()
    at = models.FloatField(db_index=True)


class RoomReuse(models.Model):
    """A room that was bound once more after its binding was over: a late binding (to the same rank), or a number used twice."""

    traffic = True

    class Over(models.TextChoices):
        EXPIRED = "expired"
        # Before its time, for there were too many.
        EVICTED = "evicted"

    instance_id = models.BigIntegerField()
    room = models.BigIntegerField()
    before = models.PositiveIntegerField()
    after = models.PositiveIntegerField()
    over = models.CharField(max_length=10, choices=Over.choices)
    # When the first binding expired, or would have.
    expired_at = models.FloatField()
    at = models.FloatField(db_index=True)

    class Meta:
        verbose_name = "reuse of a room"
        verbose_name_plural = "reuses of rooms"


class TrafficFence(models.Model):
    """The leader's token once more, where the traffic database can check it inside its own transactions."""

    traffic = True

    token = models.BigIntegerField(default=0)
