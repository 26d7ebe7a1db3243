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


class TrafficFence(models.Model):
    """The leader's token once more, where the traffic database can check it inside its own transactions."""

    traffic = True

    token = models.BigIntegerField(default=0)
