"""Digests of what arrived, on a thread of its own, while the next bytes come."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from .errors import Damaged
from .holding import Holding
from .matching import Held
from .offer import Offer

CHECKS_AHEAD = 64


class Checker:
    """Sums tensors up on a thread of its own while the next ones come; `check` raises what it found wrong so far."""

    def __init__(self, holding: Holding, offer: Offer, proven: dict[str, str]) -> None:
        self._holding, self._offer, self._proven = holding, offer, proven
        self._waiting: queue.Queue[Held | None] = queue.Queue(CHECKS_AHEAD)
        self._wrong: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="digests", daemon=True)

    def __enter__(self) -> Checker:
        if self._offer.manifest is not None:
            self._thread.start()
        return self

    def __call__(self, whole: Sequence[Held]) -> None:
        for each in whole:
            if self._offer.manifest is None:
                self._proven[each.name] = self._offer.proof(each.name)
            else:
                self._waiting.put(each)
        if self._wrong is not None:
            raise self._wrong

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        if self._offer.manifest is not None:
            self._waiting.put(None)
            self._thread.join()
        if self._wrong is not None and problem is None:
            raise self._wrong

    def _run(self) -> None:
        while (each := self._waiting.get()) is not None:
            try:
                if self._holding.digest(each.name) == (digest := self._offer.proof(each.name)):
                    self._proven[each.name] = digest
                else:
                    self._wrong = self._wrong or Damaged(f"{each.name} came with other bytes than were promised")
            except Exception as problem:
                self._wrong = self._wrong or problem
