"""How long ranks take to answer probes, for the sampled series: the latest answers, and how many there were in all."""

from __future__ import annotations

import math
from collections import deque

from controlplane.domain.contact import Contact
from controlplane.metrics.meters import Histogram
from controlplane.metrics.of_bootstrap import PROBE_SECONDS

KEPT = 4096


class Timing:
    """`took` (seconds) holds the latest answers since it was emptied last; all else only grows."""

    def __init__(self) -> None:
        self.asked = 0
        self.unanswered = 0
        self.heard_as = dict.fromkeys(Contact, 0)
        self.answers = Histogram(PROBE_SECONDS.bounds)
        self.took: deque[float] = deque(maxlen=KEPT)

    def heard(self, contact: Contact, seconds: float) -> None:
        self.asked += 1
        self.heard_as[contact] += 1
        if contact is Contact.UP:
            self.took.append(seconds)
            self.answers.observe(seconds)
        else:
            self.unanswered += 1

    def empty(self) -> list[float]:
        """The latest answers, the quickest first; from now on there are none."""
        took, self.took = self.took, deque(maxlen=KEPT)
        return sorted(took)


def percentile(ordered: list[float], share: float) -> float | None:
    """The smallest of these that at least `share` of them do not exceed.

    >>> percentile([1.0, 2.0, 3.0, 9.0], 0.5), percentile([1.0, 2.0, 3.0, 9.0], 0.99), percentile([], 0.5)
    (2.0, 9.0, None)
    """
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
