"""What the bootstrap process did and held, every ten seconds. Written by it alone, trimmed by Celery after a day."""

from django.db import models

SAMPLE_SECONDS = 10.0
SAMPLES_KEPT_SECONDS = 86_400.0


class Sample(models.Model):
    """Counts of the `seconds` before `at`, and what there was at `at`. Of a time that nobody led there is none."""

    traffic = True

    at = models.FloatField(db_index=True)
    seconds = models.FloatField()
    registrations = models.PositiveIntegerField()
    lookups = models.PositiveIntegerField()
    bindings = models.PositiveIntegerField()
    collisions = models.PositiveIntegerField()
    refusals = models.PositiveIntegerField()
    rooms = models.PositiveIntegerField()
    probes = models.PositiveIntegerField()
    unanswered = models.PositiveIntegerField()
    probe_p50_ms = models.FloatField(null=True)
    probe_p99_ms = models.FloatField(null=True)
