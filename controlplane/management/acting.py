"""What commands share that act on an instance or a DP group: their options, what they print, and watching a drain end."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import DatabaseError, InterfaceError, connections

from controlplane.commands.intent import Changed
from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.ledger.wake import Sleeper
from controlplane.models import ALL_GROUPS
from controlplane.queries.drains import DrainRow, Plan, drain, told
from controlplane.queries.standing import scope

from .auditing import attempted
from .operating import OK, OperatorCommand, database_sentence, local, moment, os_user

POLL_SECONDS = 0.5
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?")

Content = tuple[Any, ...]
Done = TypeVar("Done")
Look = Callable[[], tuple[Content, list[str], dict[str, Any], int | None]]
"""What is compared, the sentences, the document, and the exit code once there is nothing to wait for."""


class ActingCommand(OperatorCommand):
    """Subclasses say what is to be done; who, why, on what and with which version known is the same for all."""

    def add_subject(self, parser: CommandParser, *, group: bool = True, watch: str = "") -> None:
        parser.add_argument("name", metavar="NAME", help="the instance")
        if group:
            parser.add_argument("--dp", type=int, metavar="N", help="only this DP group of it")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the ledger")
        parser.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
        parser.add_argument(
            "--if-version",
            type=int,
            metavar="V",
            help="only while the instance is at this version, else say what changed",
        )
        if watch:
            parser.add_argument("--watch", action="store_true", help=watch)
        self.add_json(parser, what="one JSON document, or with --watch one a line," if watch else "one JSON document")

    def asked(self, options: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of every command on an instance or DP group."""
        dp = options["dp"]
        if dp is not None and dp < 0:
            raise Refused("--dp is the number of a DP group, 0 or more", code="malformed")
        return {"group": ALL_GROUPS if dp is None else dp, **self.by(options), "expected": options["if_version"]}

    def attempt(self, action: str, options: dict[str, Any], work: Callable[[], Done]) -> Done:
        """`work`, with its line in the audit. A DP group stands beside the name there, as it does for the API."""
        group = f" dp{options['dp']}" if options.get("dp") is not None else ""
        return attempted(work, action=action, target=f"{options['name']}{group}", options=options)

    def by(self, options: dict[str, Any]) -> dict[str, str]:
        return {"actor": options["actor"] or os_user(), "reason": options["reason"]}

    def tell_changed(self, done: Changed, *, as_json: bool, one_line: bool = False) -> None:
        if as_json:
            self.say_document(changed_document(done), one_line=one_line)
        else:
            self.say(f"{done.sentence}.")

    def say_document(self, document: dict[str, Any], *, one_line: bool = False) -> None:
        if one_line:
            self.stdout.write(json.dumps(document, ensure_ascii=False))
        else:
            self.print_json(document)

    def follow(self, look: Look, *, as_json: bool) -> int:
        """Look until it ends, and print whenever something changed. Ctrl-C ends the looking, nothing else."""
        sleeper = Sleeper(settings.REDIS_URL)
        shown: Content | None = None
        away = False
        try:
            while True:
                try:
                    content, sentences, document, code = look()
                    away = False
                except (DatabaseError, InterfaceError) as problem:
                    if not away:
                        self.stderr.write(f"note: {database_sentence(problem)}; going on as soon as it answers")
                    away = True
                    connections[READER].close()
                    time.sleep(POLL_SECONDS)
                    continue
                if content != shown:
                    shown = content
                    self._show(sentences, document, as_json=as_json)
                if code is not None:
                    return code
                sleeper.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            return OK
        finally:
            sleeper.close()

    def _show(self, sentences: Sequence[str], document: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.say_document(document, one_line=True)
        else:
            self.say(f"{local(time.time())[11:]}  {sentences[0]}")
            for sentence in sentences[1:]:
                self.say(f"          {sentence}")
        self.stdout.flush()


def look_at_drain(number: int, *, ended_well: int, ended: int) -> Look:
    """A drain, until it is drained, or ended otherwise."""

    def look() -> tuple[Content, list[str], dict[str, Any], int | None]:
        now = time.time()
        row = drain(number)
        code = None
        if row.progress == "drained":
            code = ended_well
        elif row.ended:
            code = ended
        return (row.progress, row.launch, row.blockers, row.ended), told(row, now=now), drain_document(row), code

    return look


def duration(text: str) -> float:
    """Seconds: `90`, `90s`, `5m`, `2h`.

    >>> duration("90"), duration("1.5h")
    (90.0, 5400.0)
    """
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise Refused(f"{text!r} is not a duration such as 90, 90s, 5m or 2h", code="malformed")
    return float(found[1]) * UNITS[found[2] or ""]


def changed_document(done: Changed) -> dict[str, Any]:
    return {
        "instance": done.instance,
        "dp": scope(done.group),
        "changed": done.changed,
        "sentence": done.sentence,
        "intent": done.intent,
        "version": done.version,
        "drain": done.drain,
    }


def plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "instance": plan.instance,
        "dp": plan.group,
        "role": plan.role,
        "intent": plan.intent,
        "version": plan.version,
        "launch": plan.launch,
        "instances": {"now": plan.instances_now, "after": plan.instances_after},
        "groups": {"now": plan.groups_now, "after": plan.groups_after},
        "ranks": {"now": plan.ranks_now, "after": plan.ranks_after},
        "pairs": {"now": plan.pairs_now, "after": plan.pairs_after},
        "min_ready": plan.min_ready,
        "can_stop_admission": plan.can_stop_admission,
        "selectors": list(plan.selectors),
        "witnesses": list(plan.witnesses),
        "refused": plan.refused,
        "sentences": list(plan.sentences),
    }


def drain_document(row: DrainRow) -> dict[str, Any]:
    return {
        "drain": row.id,
        "instance": row.instance,
        "dp": row.group,
        "launch": row.launch,
        "current_launch": row.current_launch,
        "progress": row.progress,
        "safe_to_delete": row.safe_to_delete,
        "blockers": list(row.blockers),
        "actor": row.actor,
        "reason": row.reason,
        "started_at": moment(row.started_at),
        "deadline_at": moment(row.deadline_at),
        "checked_at": moment(row.checked_at),
        "empty_at": moment(row.empty_at),
        "ended_at": moment(row.ended_at),
        "ended_reason": row.ended_reason,
        "readings": [
            {"who": r.who, "dp": r.dp, "taken_at": moment(r.taken_at), "open": r.open, "counts": dict(r.counts)}
            for r in row.readings
        ],
    }
