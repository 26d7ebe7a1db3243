"""Forget samples of the series that are older than a day."""

from __future__ import annotations

from controlplane.databases import TRAFFIC
from controlplane.models import Sample
from controlplane.models.samples import SAMPLES_KEPT_SECONDS

SLACK_SECONDS = 600.0
"""How much longer they are kept: whoever looks at a whole day must not see its beginning go."""


def forget_old(*, now: float) -> int:
    """How many went. One statement over an index; a day has fewer than nine thousand."""
    before = now - SAMPLES_KEPT_SECONDS - SLACK_SECONDS
    return Sample.objects.using(TRAFFIC).filter(at__lt=before).delete()[0]
