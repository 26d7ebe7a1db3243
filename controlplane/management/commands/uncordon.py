"""`manage.py uncordon`: use an instance or a DP group again; a drain that is under way is cancelled."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import intent
from controlplane.management.acting import ActingCommand
from controlplane.management.operating import OK


class Command(ActingCommand):
    help = "Enable a cordoned or draining instance or DP group again."

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_subject(parser)

    def operate(self, options: dict[str, Any]) -> int:
        asked = self.asked(options)
        done = self.attempt("uncordon", options, lambda: intent.uncordon(options["name"], **asked))
        self.tell_changed(done, as_json=options["json"])
        return OK
