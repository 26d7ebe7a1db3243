"""Refused registrations, made visible without letting a broken worker flood the ledger or the log."""

from __future__ import annotations

import time
from collections import OrderedDict

import structlog

from controlplane.domain.errors import Refused
from controlplane.ledger.writes import Writes

from .fleet import Instance
from .recorder import Operation, Recorder, Staged

log = structlog.get_logger()

AGAIN_SECONDS = 60.0
REMEMBERED = 2000
BURST = 20.0
PER_SECOND = 1.0


class NoteRefusal(Operation):
    """An event that says who was refused and why. No fact changes."""

    __slots__ = ("sentence", "source", "what")

    def __init__(self, instance: Instance, what: str, source: str, sentence: str) -> None:
        super().__init__(instance)
        self.what, self.source, self.sentence = what, source, sentence

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        data = {"what": self.what, "source": self.source, "sentence": self.sentence}
        writes.note_plain(self.instance.name, "registration.refused", data, now)


class Complaints:
    """The first of equal refusals counts, then one a minute; all together at most PER_SECOND after a burst."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._last: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._tokens = BURST
        self._at = time.monotonic()
        self.unheard = 0

    def about(self, instance: Instance | None, what: str, source: str, refused: Refused) -> None:
        now = time.monotonic()
        key = (instance.name if instance else "", source, refused.sentence[:200])
        if now - self._last.get(key, -AGAIN_SECONDS) < AGAIN_SECONDS or not self._may_speak(now):
            self.unheard += 1
            return
        self._last[key] = now
        self._last.move_to_end(key)
        while len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        log.warning("refused", what=what, source=source, instance=key[0], why=refused.sentence, unheard=self.unheard)
        self.unheard = 0
        if instance is not None:
            self._recorder.submit(NoteRefusal(instance, what, source, refused.sentence[:500]))

    def _may_speak(self, now: float) -> bool:
        self._tokens = min(BURST, self._tokens + (now - self._at) * PER_SECOND)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
