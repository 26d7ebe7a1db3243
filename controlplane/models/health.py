"""What is known of engines' own HTTP servers, and who was suspected of not being well."""

from django.db import models

from controlplane.domain.engine_health import State


class EngineHealth(models.Model):
    """One row an instance: the verdict on its engine, and what it rests on. Written by the prober alone, and only as it was
    read (`version`). The verdict's turns are events of the ledger; the rest is volatile, and at most seconds old."""

    instance_id = models.BigIntegerField(primary_key=True)
    version = models.PositiveIntegerField(default=1)
    # Where all of this was seen: of an instance that has another address by now, nothing is known.
    at = models.CharField(max_length=500)
    state = models.CharField(max_length=10, choices=[(state.value, state.value) for state in State])
    why = models.CharField(max_length=20, default="")
    since = models.FloatField()
    asked_at = models.FloatField(null=True)
    answered_at = models.FloatField(null=True)
    proof_at = models.FloatField(null=True)
    status = models.PositiveIntegerField(null=True)
    took = models.FloatField(null=True)
    error = models.TextField(default="")
    error_at = models.FloatField(null=True)
    computed_at = models.FloatField(null=True)
    # Answers in a row, up to what the rule asks for: they outlive a restart of ours.
    fails = models.PositiveIntegerField(default=0)
    passes = models.PositiveIntegerField(default=0)
    served = models.BooleanField(default=False)
    # Which start of the engine it is, and what that says of itself: JSON.
    identity = models.CharField(max_length=100, default="")
    said = models.TextField(default="{}")
    identified_at = models.FloatField(null=True)
    # What it held when it was asked last: JSON, by name of the count.
    load = models.TextField(default="{}")
    load_at = models.FloatField(null=True)
    # It fails, and that is not held against it: most engines failed together.
    withheld_since = models.FloatField(null=True)
    # Of a prefill: who answered at the address that decodes are sent to for its bootstrap (probes.bootstrap_port).
    held = models.CharField(max_length=300, default="", db_default="", blank=True)
    holder = models.CharField(max_length=20, default="", db_default="", blank=True)
    held_at = models.FloatField(null=True)

    class Meta:
        verbose_name_plural = "engine health"


class Suspicion(models.Model):
    """Somebody doubts that an instance is well: its ranks and its engine are asked at once. At most one row an instance.

    Written by commands; prober and bootstrap process read what is new by its id, and write nothing here."""

    instance_id = models.BigIntegerField(unique=True)
    instance = models.CharField(max_length=100)
    at = models.FloatField(db_index=True)
    by = models.CharField(max_length=150)
    reason = models.TextField(default="")
