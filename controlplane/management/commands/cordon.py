"""`manage.py cordon`: send nothing new to an instance or a DP group; what is in flight goes on."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import intent
from controlplane.management.acting import ActingCommand, Content
from controlplane.management.operating import NOTHING, OK
from controlplane.queries.witnesses import admission_of


class Command(ActingCommand):
    help = "Cordon an instance or a DP group: gateways and routers send nothing new to it."

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_subject(parser, watch="wait until everybody who chooses workers has stopped")

    def operate(self, options: dict[str, Any]) -> int:
        asked, watch = self.asked(options), options["watch"]
        done = self.attempt("cordon", options, lambda: intent.cordon(options["name"], **asked))
        self.tell_changed(done, as_json=options["json"], one_line=watch)
        if not watch:
            return OK

        def look() -> tuple[Content, list[str], dict[str, Any], int | None]:
            found = admission_of(options["name"], asked["group"], now=time.time())
            blockers = [*found.admitting.values(), *found.unsure.values()]
            document = {
                "instance": options["name"],
                "dp": options["dp"],
                "stopped": found.stopped,
                "blockers": blockers,
            }
            code = OK if found.stopped else NOTHING if "nobody" in found.unsure else None
            said = ["Everybody has stopped."] if found.stopped else [f"Waiting: {blocker}." for blocker in blockers]
            return (tuple(blockers),), said, document, code

        return self.follow(look, as_json=options["json"])
