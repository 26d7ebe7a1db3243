"""Refused registrations, made visible without letting a broken worker flood the ledger or the log."""

from __future__ import annotations

import time
from collections.abc import Mapping

import structlog

from controlplane.domain.errors import Refused
from controlplane.floodgate import FloodGate
from controlplane.ledger.writes import Writes

from .fleet import Ambiguous, Instance
from .recorder import Operation, Recorder, Staged

log = structlog.get_logger()


class Note(Operation):
    """An event of the process itself about an instance, or (`nobody`) about none that is known. No fact changes."""

    __slots__ = ("data", "kind", "name")

    def __init__(self, instance: Instance, kind: str, data: Mapping[str, object], *, nobody: bool = False) -> None:
        super().__init__(instance)
        self.kind, self.data, self.name = kind, data, "" if nobody else instance.name

    def decide(self, staged: Staged, writes: Writes, now: float) -> None:
        writes.note_plain(self.name, self.kind, dict(self.data), now)


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
        data = {"what": what, "source": source, "sentence": refused.sentence[:500]}
        if instance is not None:
            self._recorder.submit(Note(instance, "registration.refused", data))
        elif isinstance(refused, Ambiguous):
            # Whom it means is what nobody knows: each of those that share the listener may look for it.
            self._recorder.submit(Note(refused.one, "registration.refused", data, nobody=True))
