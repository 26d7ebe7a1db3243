"""Instances, their launches and ranks. Registration is written by the bootstrap process, intent by commands."""

from django.db import models


class Instance(models.Model):
    """One launchable engine. `next_launch`, `debt_*`, `late`, `observation` and `created_at` belong to the bootstrap
    process; `role`, `intent*`, `own_port`, `host_alias`, `engine_*`, `observed_*`, `probe_seconds`, `*_after` and `version`
    to operators. The process inserts rows in SQL of its own: a new column needs a default in the database."""

    class Role(models.TextChoices):
        PREFILL = "prefill"
        DECODE = "decode"
        SEED = "seed"

    class Intent(models.TextChoices):
        ENABLED = "enabled"
        CORDONED = "cordoned"
        DRAINING = "draining"
        RETIRED = "retired"

    name = models.CharField(max_length=100, unique=True)
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.PREFILL)
    intent = models.CharField(max_length=10, choices=Intent.choices, default=Intent.ENABLED)
    own_port = models.PositiveIntegerField(null=True, blank=True, unique=True)
    host_alias = models.CharField(max_length=253, null=True, blank=True, unique=True)
    created_at = models.FloatField()
    retired_at = models.FloatField(null=True, blank=True)
    next_launch = models.PositiveIntegerField(default=1)
    debt_since = models.FloatField(null=True, blank=True)
    debt_hold = models.BooleanField(default=False)
    # PUTs that came late, and were answered OK: until their address is asked once more, or nobody would ask again.
    late = models.TextField(default="", db_default="", blank=True)
    intent_actor = models.CharField(max_length=150, default="", db_default="", blank=True)
    intent_reason = models.TextField(default="", db_default="", blank=True)
    intent_at = models.FloatField(null=True, blank=True)
    # The engine's own HTTP server, for loads and routers; its API key is encrypted and never shown again.
    engine_url = models.CharField(max_length=500, default="", db_default="", blank=True)
    engine_key = models.TextField(default="", db_default="", blank=True)
    # Where an engine that knows nothing of us is asked who is registered: a prefill's own KV bootstrap server, a decode's
    # HTTP server; and who published weights: its own engine-info server.
    observed_url = models.CharField(max_length=500, default="", db_default="", blank=True)
    observed_engine_info_url = models.CharField(max_length=500, default="", db_default="", blank=True)
    # How its engine is probed, where the settings are not right for it: seconds between probes, misses in a row that make it
    # unhealthy, answers in a row that make it healthy again.
    probe_seconds = models.FloatField(null=True, blank=True)
    fail_after = models.PositiveIntegerField(null=True, blank=True)
    pass_after = models.PositiveIntegerField(null=True, blank=True)
    # What was heard there last: JSON (domain.observing.Memory), empty for nothing yet.
    observation = models.TextField(default="", db_default="", blank=True)
    # Counts every change by operators, of a DP group's intent too: the ETag, and what compare-and-set compares.
    version = models.PositiveIntegerField(default=1, db_default=1)

    def __str__(self) -> str:
        return self.name


class Launch(models.Model):
    """A generation of an instance. Written by the bootstrap process alone."""

    class State(models.TextChoices):
        CURRENT = "current"
        CANDIDATE = "candidate"
        REPLACED = "replaced"
        DROPPED = "dropped"

    # No database-level foreign keys here: a deadlock between the recorder and a command was reproduced with them.
    instance_id = models.BigIntegerField()
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=State.choices)
    token = models.CharField(max_length=128, null=True)
    dp = models.PositiveIntegerField()
    cp = models.PositiveIntegerField()
    tp = models.PositiveIntegerField()
    pp = models.PositiveIntegerField()
    facts = models.TextField()
    opened_at = models.FloatField()
    completed_at = models.FloatField(null=True)
    unchecked = models.BooleanField(default=False)
    ended_at = models.FloatField(null=True)
    ended_reason = models.TextField(default="")
    # Ranks with this launch's token that asked for a slot whose owner answers: JSON, empty for none.
    claims = models.TextField(default="")

    class Meta:
        verbose_name_plural = "launches"
        constraints = [models.UniqueConstraint(fields=["instance_id", "number"], name="launch_number")]
        indexes = [
            models.Index(fields=["ended_at"], condition=models.Q(ended_at__isnull=False), name="launch_ended"),
        ]


class Rank(models.Model):
    """Who sits, or sat, in a slot of a launch. Written by the bootstrap process alone; times are epoch seconds."""

    # The slot is the key: one index to keep up to date a registration, not two.
    pk = models.CompositePrimaryKey("instance_id", "launch", "dp", "cp", "tp", "pp")
    instance_id = models.BigIntegerField()
    launch = models.PositiveIntegerField()
    dp = models.PositiveIntegerField()
    cp = models.PositiveIntegerField()
    tp = models.PositiveIntegerField()
    pp = models.PositiveIntegerField()
    ip = models.CharField(max_length=253)
    port = models.PositiveIntegerField()
    http_port = models.PositiveIntegerField(null=True)
    first_at = models.FloatField()
    seen_at = models.FloatField()
    again_at = models.FloatField(null=True)
    contact = models.CharField(max_length=10)
    greeted = models.BooleanField(default=False)
    adopted = models.BooleanField(default=False)
    flags = models.CharField(max_length=100, default="")
    # The term of the bootstrap process in which it was last seen to answer a probe; 0 for never.
    verified_term = models.BigIntegerField(default=0)
    left_at = models.FloatField(null=True)
    left_reason = models.TextField(default="")
