"""`manage.py drain`: take an instance or a DP group out of use without losing a request; cancel or force it."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import drains
from controlplane.domain.errors import Refused
from controlplane.management.acting import ActingCommand, duration, look_at_drain, plan_document
from controlplane.management.operating import NOTHING, OK


class Command(ActingCommand):
    help = (
        "Drain an instance or a DP group: nothing new is sent to it, and it is drained once everybody who can know has"
        " said so. Exit code 0: done (with --watch: drained), 1: refused, or ended otherwise."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        self.add_subject(parser, watch="follow it until it is drained or ended")
        parser.add_argument(
            "--deadline", metavar="DURATION", help="overdue after so long: 90s, 5m, 2h; it goes on all the same"
        )
        parser.add_argument(
            "--min-ready", type=int, default=0, metavar="N", help="refuse when fewer routable instances would remain"
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--dry-run", action="store_true", help="only say what it would mean")
        what.add_argument("--cancel", action="store_true", help="end the drain, and use it again")
        what.add_argument("--force", action="store_true", help="wait no longer: what is in flight may be lost")
        parser.add_argument(
            "--to", choices=("enabled", "cordoned"), help="with --cancel: what it is to be then (default enabled)"
        )

    def operate(self, options: dict[str, Any]) -> int:
        if options["to"] and not options["cancel"]:
            raise Refused("--to says what it is to be after --cancel; give both", code="malformed")
        if options["dry_run"]:
            return self._plan(options)
        if options["watch"] and (options["cancel"] or options["force"]):
            raise Refused(
                "--watch follows a drain; there is none to follow after --cancel or --force", code="malformed"
            )
        done = self._act(options)
        watch = options["watch"]
        self.tell_changed(done, as_json=options["json"], one_line=watch)
        if not watch or done.drain is None:
            return OK
        return self.follow(look_at_drain(done.drain, ended_well=OK, ended=NOTHING), as_json=options["json"])

    def _act(self, options: dict[str, Any]) -> drains.Changed:
        name, asked = options["name"], self.asked(options)
        if options["cancel"]:
            to = options["to"] or "enabled"
            return self.attempt("cancel-drain", options, lambda: drains.cancel(name, to=to, **asked))
        if options["force"]:
            return self.attempt("force-drain", options, lambda: drains.force(name, **asked))
        deadline = options["deadline"]
        until = time.time() + duration(deadline) if deadline is not None else None
        asked |= {"deadline_at": until, "min_ready": options["min_ready"]}
        return self.attempt("drain", options, lambda: drains.drain(name, **asked))

    def _plan(self, options: dict[str, Any]) -> int:
        group = self.asked(options)["group"]
        plan = drains.plan(options["name"], group=group, min_ready=options["min_ready"])
        if options["json"]:
            self.print_json(plan_document(plan))
        else:
            self.say(f"If {plan.what} were drained:")
            for sentence in plan.sentences:
                self.say(f"  {sentence}")
        return OK if plan.refused is None else NOTHING
