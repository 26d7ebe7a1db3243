"""Refused registrations, made visible without letting a broken worker flood the ledger or the log."""

from __future__ import annotations

import time

import structlog

from controlplane.domain.errors import Refused
from controlplane.floodgate import FloodGate
from controlplane.ledger.writes import Writes

from .fleet import Instance
from .recorder import Operation, Recorder, Staged

log = structlog.get_logger()


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
    """The first of equal refusals is heard, then one a minute; 60 a minute of all together."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._gate = FloodGate(per_source=1, per_kind=60, window_seconds=60)

    def about(self, instance: Instance | None, what: str, source: str, refused: Refused) -> None:
        name = instance.name if instance else ""
        heard = self._gate.admit(f"{source} {name} {refused.sentence}", "refused", now=time.monotonic())
        if not heard.admitted:
            return
        log.warning("refused", what=what, source=source, instance=name, why=refused.sentence, unheard=heard.suppressed)
        if instance is not None:
            self._recorder.submit(NoteRefusal(instance, what, source, refused.sentence[:500]))
