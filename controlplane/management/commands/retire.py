"""`manage.py retire`: end an instance; its wire answers 404, its port and alias are free."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import instances
from controlplane.management.acting import ActingCommand
from controlplane.management.operating import OK


class Command(ActingCommand):
    help = "Retire an instance. It does not wait for anything: drain it first."

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_subject(parser, group=False)

    def operate(self, options: dict[str, Any]) -> int:
        asked = {**self.by(options), "expected": options["if_version"]}
        done = self.attempt("retire", options, lambda: instances.retire(options["name"], **asked))
        if options["json"]:
            self.print_json({"name": done.name, "changed": done.changed, "sentence": done.sentence})
        else:
            self.say(f"{done.sentence}.")
        return OK
