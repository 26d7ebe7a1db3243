"""Those who choose workers: our gateways, which report here, and real sglang-routers, which we drive."""

from django.db import models

from .intent import ALL_GROUPS


class Gateway(models.Model):
    """A gateway that registered through the API. Written by that gateway's own requests. Times are epoch seconds."""

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=500, default="", blank=True)
    # Who joined it: while it is there and heard from, no other token speaks for it.
    joined_by = models.CharField(max_length=150, default="", blank=True)
    registered_at = models.FloatField()
    seen_at = models.FloatField()
    # Silent for longer than this: it may still admit, so it blocks drains, and says so.
    lease_seconds = models.FloatField(default=15.0)
    acknowledged_ledger = models.CharField(max_length=36, default="")
    acknowledged_revision = models.BigIntegerField(default=0)
    left_at = models.FloatField(null=True)


class Breaker(models.Model):
    """One gateway's or router's (`router:NAME`) verdict about an instance. Written by that gateway, through the API."""

    class State(models.TextChoices):
        CLOSED = "closed"
        OPEN = "open"
        HALF_OPEN = "half_open"

    gateway = models.CharField(max_length=120)
    instance = models.CharField(max_length=100, db_index=True)
    group = models.IntegerField(default=ALL_GROUPS)
    state = models.CharField(max_length=10, choices=State.choices)
    since = models.FloatField()
    reported_at = models.FloatField()
    reason = models.TextField(default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gateway", "instance", "group"], name="breaker_of_gateway")]


class OpenRooms(models.Model):
    """How many rooms somebody knows to be open in a DP group: the last word of each witness. Written by its reports."""

    class Kind(models.TextChoices):
        GATEWAY = "gateway"
        WORKER = "worker"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    source = models.CharField(max_length=128)
    instance = models.CharField(max_length=100, db_index=True)
    group = models.IntegerField()
    # The launch the witness speaks of, when it knows.
    launch_token = models.CharField(max_length=128, default="")
    open_rooms = models.PositiveIntegerField()
    # When the count was true, by our clock: reports carry their age, never a time of day.
    taken_at = models.FloatField()
    received_at = models.FloatField()

    class Meta:
        verbose_name = "open rooms of a witness"
        verbose_name_plural = "open rooms"
        constraints = [
            models.UniqueConstraint(fields=["kind", "source", "instance", "group"], name="open_rooms_of_source")
        ]


class OutcomeCount(models.Model):
    """How many requests ended how, a minute and pair at a time. Appended to by gateways' reports."""

    traffic = True

    minute = models.BigIntegerField()
    gateway = models.CharField(max_length=100)
    prefill = models.CharField(max_length=100, default="")
    decode = models.CharField(max_length=100, default="")
    outcome = models.CharField(max_length=40)
    count = models.PositiveBigIntegerField()

    class Meta:
        verbose_name_plural = "outcome counts"
        constraints = [
            models.UniqueConstraint(
                fields=["minute", "gateway", "prefill", "decode", "outcome"], name="outcome_of_minute"
            )
        ]


class Router(models.Model):
    """A real sglang-router that is kept in step with a set of instances. Named by operators; `state`, `problem`,
    `checked_at`, `breakers_at` and `restarts` are written by the reconciler alone."""

    class State(models.TextChoices):
        UNKNOWN = "unknown"
        IN_STEP = "in_step"
        CHANGING = "changing"
        AWAY = "away"

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=500)
    metrics_url = models.CharField(max_length=500, default="", blank=True)
    # Encrypted; never shown again.
    api_key = models.TextField(default="", blank=True)
    created_at = models.FloatField()
    actor = models.CharField(max_length=150)
    version = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=10, choices=State.choices, default=State.UNKNOWN)
    problem = models.TextField(default="")
    checked_at = models.FloatField(null=True)
    # When its breakers were last read from its metrics: that none is open is known since then only.
    breakers_at = models.FloatField(null=True)
    restarts = models.PositiveIntegerField(default=0)


class RouterMember(models.Model):
    """An instance that a router shall know, and what the router was last seen to hold of it."""

    router_id = models.BigIntegerField()
    instance = models.CharField(max_length=100)
    # False: an operator took it off the list; the row stays until its worker is seen to be gone from the router.
    wanted = models.BooleanField(default=True)
    present = models.BooleanField(default=False)
    worker_id = models.CharField(max_length=200, default="")
    worker_url = models.CharField(max_length=500, default="")
    sentence = models.TextField(default="")
    changed_at = models.FloatField(null=True)
    # What the router itself thinks of its health, when it was last asked; null where it does not say.
    healthy = models.BooleanField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["router_id", "instance"], name="member_of_router")]
