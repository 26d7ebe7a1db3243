"""Samples as the bootstrap process would have kept them, of a day that has a shape."""

from __future__ import annotations

import math
from collections.abc import Callable

from controlplane.databases import TRAFFIC
from controlplane.models import Sample
from controlplane.models.samples import SAMPLE_SECONDS

Number = Callable[[float], float]


def keep_samples(now: float, seconds: float, **given: float | None) -> None:
    """A sample every ten seconds up to `now`. `given` columns are the same in each of them."""
    last = math.floor(now / SAMPLE_SECONDS) * SAMPLE_SECONDS
    made = [_sample(last - n * SAMPLE_SECONDS, given) for n in range(int(seconds / SAMPLE_SECONDS))]
    Sample.objects.using(TRAFFIC).bulk_create(reversed(made), batch_size=500)


def _sample(at: float, given: dict[str, float | None]) -> Sample:
    wave = 1 + 0.3 * math.sin(at / 2700) + 0.06 * math.sin(at / 37) + 0.04 * math.sin(at / 11)
    p50 = 0.42 + 0.05 * math.sin(at / 90)
    usual: dict[str, float | None] = {
        "registrations": 16 if at % 5400 < 60 else 0,
        "lookups": round(8120 * wave),
        "bindings": round(2140 * wave),
        "collisions": 1 if at % 1700 < 10 else 0,
        "refusals": 4 if at % 3600 < 120 else 0,
        "rooms": round(1284 * wave),
        "probes": 870,
        "unanswered": 20 if at % 4000 < 90 else 0,
        "probe_p50_ms": p50,
        "probe_p99_ms": p50 * (3 + math.sin(at / 23) ** 2 * 4),
    }
    return Sample(at=at + 0.004, seconds=SAMPLE_SECONDS, **(usual | given))
