"""Transfer-engine info. Written by the bootstrap process alone."""

from django.db import models


class EngineBody(models.Model):
    """A weights dictionary once, however many ranks and epochs share it: compact JSON, zlib-compressed."""

    digest = models.CharField(max_length=64, primary_key=True)
    compressed = models.BinaryField()
    size_bytes = models.PositiveBigIntegerField()

    class Meta:
        verbose_name_plural = "engine bodies"


class EngineInfo(models.Model):
    """One published session of one rank. At most one is live per rank; a conflict is kept beside it."""

    class State(models.TextChoices):
        LIVE = "live"
        CONFLICT = "conflict"
        RETIRED = "retired"

    instance_id = models.BigIntegerField()
    rank = models.BigIntegerField()
    epoch = models.PositiveIntegerField()
    session = models.CharField(max_length=300)
    digest = models.CharField(max_length=64, db_index=True)
    tensors = models.PositiveIntegerField()
    total_bytes = models.PositiveBigIntegerField()
    old_style = models.BooleanField(default=False)
    # It accepted a connection once, so that a refusal means something.
    greeted = models.BooleanField(default=False)
    # What its last probe saw, as a word of domain.contact; empty for not probed.
    contact = models.CharField(max_length=10, default="", db_default="")
    state = models.CharField(max_length=10, choices=State.choices)
    at = models.FloatField()
    ended_at = models.FloatField(null=True)
    ended_reason = models.TextField(default="")

    class Meta:
        verbose_name_plural = "engine info"
        constraints = [models.UniqueConstraint(fields=["instance_id", "rank", "epoch"], name="engine_epoch")]
