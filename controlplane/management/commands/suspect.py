"""`manage.py suspect`: have the ranks and the engine of an instance asked at once, and say what came of it."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import suspecting
from controlplane.domain.errors import Refused
from controlplane.management.auditing import attempted
from controlplane.management.documents import engine_document
from controlplane.management.operating import NOTHING, OK, OperatorCommand, moment, os_user
from controlplane.queries import fleet, telling_engines
from controlplane.queries.rows import InstanceRow

POLL_SECONDS = 0.1


class Command(OperatorCommand):
    help = "Have the ranks and the engine of an instance asked at once how they are."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the instance")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why it is doubted")
        parser.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
        parser.add_argument(
            "--wait", type=float, default=10, metavar="SECONDS", help="for its engine (default 10; 0: do not wait)"
        )
        self.add_json(parser)

    def operate(self, options: dict[str, Any]) -> int:
        if not 0 <= options["wait"] < float("inf"):
            raise Refused("--wait is a number of seconds, 0 or more", code="malformed")
        name = options["name"]
        actor, reason = options["actor"] or os_user(), options["reason"]
        found = attempted(
            lambda: suspecting.suspect(name, actor=actor, reason=reason),
            action="instance.suspect",
            target=name,
            options=options,
        )
        row, asked = self._row(name, found.at, patience=options["wait"])
        if options["json"]:
            said = {"name": name, "changed": found.changed, "sentence": found.sentence, "at": moment(found.at)}
            self.print_json({**said, "asked": asked, "engine": engine_document(row.engine)})
        else:
            self.say(f"{found.sentence}.")
            for sentence in telling_engines.told(row.engine, now=time.time()):
                self.say(sentence)
            if not row.engine.at:
                self.say("Where its engine serves HTTP is not known here, so its ranks alone are asked.")
            elif not asked and options["wait"]:
                self.say(f"Its engine was not asked within {options['wait']:g} s: does the clockwork run?")
        return OK if asked or not row.engine.at or not options["wait"] else NOTHING

    def _row(self, name: str, since: float, *, patience: float) -> tuple[InstanceRow, bool]:
        """The instance, and whether its engine was asked since then."""
        end = time.monotonic() + patience
        while True:
            row, _ = fleet.instance(name, now=time.time())
            asked = row.engine.asked_at is not None and row.engine.asked_at >= since
            if asked or not row.engine.at or time.monotonic() >= end:
                return row, asked
            time.sleep(POLL_SECONDS)
