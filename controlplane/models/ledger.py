"""The one ledger: every change of a fact, in commit order, and the head that orders the commits."""

from django.db import models


class Event(models.Model):
    """Append-only. `revision` is gapless; `data` is JSON text; `actor` is empty for what workers caused."""

    revision = models.BigIntegerField(primary_key=True)
    at = models.FloatField()
    kind = models.CharField(max_length=40)
    instance = models.CharField(max_length=100, default="")
    actor = models.CharField(max_length=150, default="")
    reason = models.TextField(default="")
    data = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["instance", "revision"], name="event_of_instance"),
            # Few of very many, and the newest of an instance is asked for, or that there is none.
            models.Index(
                fields=["instance", "revision"],
                name="event_of_listener",
                condition=models.Q(kind__in=["listener.opened", "listener.failed"]),
            ),
        ]


class LedgerHead(models.Model):
    """The only row (id 1). Whoever appends takes it last in the transaction, and so orders the commits."""

    ledger_id = models.CharField(max_length=36)
    revision = models.BigIntegerField(default=0)
