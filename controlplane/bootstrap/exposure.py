"""The metrics of the bootstrap process: one listener for its life, whether it leads or stands by."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from typing import TYPE_CHECKING

import structlog

from controlplane.metrics import common
from controlplane.metrics import of_bootstrap as names
from controlplane.metrics.metric import Sample
from controlplane.metrics.process import own

from .chronicle import Chronicle
from .measuring import measure

if TYPE_CHECKING:
    from .leader import Leader

log = structlog.get_logger()

LEDGER_SECONDS = 2.0
DECLARED = common, names


class Exposure:
    """`lead` and `stand_by` are told from the loop; `collect` runs in a thread of the listener."""

    def __init__(self) -> None:
        self._term: tuple[Leader, Chronicle] | None = None
        self._reading: Future[int] | None = None

    def lead(self, leader: Leader) -> None:
        """From now on the term counts: everything that happens to it is told."""
        self._reading = None
        self._term = (leader, Chronicle(leader.recorder.revision))

    def stand_by(self) -> None:
        self._term = None

    def collect(self) -> Iterator[Sample]:
        term = self._term
        yield from own("bootstrap")
        yield Sample(names.LEADING, int(term is not None and term[0].tenure.may_answer()))
        if term is None:
            return
        leader, chronicle = term
        head = self._head(leader, chronicle)
        yield Sample(common.READABLE, int(head is not None))
        known = max(leader.recorder.revision, head or 0)
        yield Sample(names.REVISION, known)
        yield Sample(common.BEHIND, max(0, known - leader.inbox.revision), ("inbox",))
        for kind, count in list(chronicle.kinds.items()):
            yield Sample(names.EVENTS, count, (kind,))
        yield Sample(names.READY_SECONDS, chronicle.ready)
        yield Sample(names.UNHEALTHY_SECONDS, chronicle.unhealthy)
        for how, took in chronicle.drains.items():
            yield Sample(names.DRAIN_SECONDS, took, (how,))
        yield from measure(leader)

    def _head(self, leader: Leader, chronicle: Chronicle) -> int | None:
        """The ledger's head; None when the database does not answer in time. Then nobody asks it a second time meanwhile."""
        reading = self._reading
        if reading is None or reading.done():
            try:
                reading = self._reading = leader.reads.submit(chronicle.catch_up)
            except RuntimeError:
                # The term is just ending.
                return None
        try:
            return reading.result(LEDGER_SECONDS)
        except TooLate:
            return None
        except Exception as problem:
            log.warning("ledger_not_counted", problem=str(problem)[:300])
            return None
