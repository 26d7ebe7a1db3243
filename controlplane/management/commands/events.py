"""`manage.py events`: what happened, from the ledger; `--follow` goes on as it happens."""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import DatabaseError, InterfaceError, connections

from controlplane.databases import READER
from controlplane.domain.errors import Refused
from controlplane.ledger.wake import Sleeper
from controlplane.management.documents import event_document
from controlplane.management.operating import NOTHING, OK, OperatorCommand, database_sentence, local, printable
from controlplane.queries.events import TELL, EventRow, after, head, latest, sentence
from controlplane.queries.following import Follower, check_follows

POLL_SECONDS = 0.25
AWAY_SECONDS = 0.5
MOST = 1_000_000


class Command(OperatorCommand):
    help = "Show what happened in the fleet, oldest first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--instance", metavar="NAME", help="only of this instance")
        parser.add_argument(
            "--kind",
            action="append",
            metavar="KIND",
            help="only of this kind, such as rank.left, or of all kinds that begin so: rank; may be given several times",
        )
        parser.add_argument("--limit", type=int, metavar="N", help="at most so many (default 20; with --after 500)")
        parser.add_argument("--after", type=int, metavar="REVISION", help="only what came after this revision")
        parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C, as it happens")
        self.add_json(parser, what="one JSON document, or with --follow one a line,")

    def operate(self, options: dict[str, Any]) -> int:
        kinds = _kinds(options["kind"])
        for name in ("limit", "after"):
            if options[name] is not None and options[name] < 0:
                raise Refused(f"--{name} cannot be negative", code="malformed")
        if options["follow"]:
            try:
                return self._follow(options, kinds)
            except KeyboardInterrupt:
                return OK
        found = self._past(options, kinds)
        if options["json"]:
            self.print_json([event_document(event) for event in found])
        elif found:
            self.table(["REVISION", "TIME", "INSTANCE", "WHAT"], [_cells(event) for event in found])
        else:
            self.complain("nothing like that has happened")
        return OK if found else NOTHING

    def _past(self, options: dict[str, Any], kinds: list[str] | None) -> list[EventRow]:
        limit, start = options["limit"], options["after"]
        if limit is not None and limit > MOST:
            raise Refused(f"--limit is {MOST:,} events at most", code="malformed")
        if start is not None:
            check_follows(start, head().revision)
            return after(start, limit=500 if limit is None else limit, instance=options["instance"], kinds=kinds)
        return latest(20 if limit is None else limit, instance=options["instance"], kinds=kinds)

    def _follow(self, options: dict[str, Any], kinds: list[str] | None) -> int:
        """The past that was asked for, then everything as it is committed. Ends only by Ctrl-C or a closed pipe."""
        start: int | None = options["after"]
        follower = Follower(after=start, instance=options["instance"], kinds=kinds)
        if start is None:
            # In this order nothing is lost or told twice: the present first, then what came before it.
            follower.poll()
            assert follower.cursor is not None
            present = follower.cursor.revision
            for event in self._past(options, kinds):
                if event.revision <= present:
                    self._tell(event, as_json=options["json"])
        sleeper = Sleeper(settings.REDIS_URL)
        away = False
        try:
            while True:
                self.stdout.flush()
                try:
                    polled = follower.poll()
                except (DatabaseError, InterfaceError) as problem:
                    if not away:
                        self._note(f"{database_sentence(problem)}; going on as soon as it answers")
                    away = True
                    connections[READER].close()
                    time.sleep(AWAY_SECONDS)
                    continue
                if away:
                    self._note("the database answers again; nothing was skipped")
                    away = False
                if polled.replaced:
                    self._note("this is another ledger now (a restored backup, or a failover); following it from here")
                for event in polled.events:
                    self._tell(event, as_json=options["json"])
                if not polled.more:
                    self.stdout.flush()
                    if self._nobody_reads():
                        return OK
                    sleeper.sleep(POLL_SECONDS)
        finally:
            sleeper.close()

    def _tell(self, event: EventRow, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(event_document(event), ensure_ascii=False))
        else:
            revision, when, instance, what = _cells(event)
            self.stdout.write(f"{revision:>8}  {when}  {printable(instance)}  {printable(what)}")

    def _nobody_reads(self) -> bool:
        """Whether the pipe's other end is closed: with nothing to write, nothing else would tell."""
        poll = select.poll()
        # Only errors, which need not be asked for.
        poll.register(sys.stdout.fileno(), 0)
        return any(what & (select.POLLERR | select.POLLNVAL) for _, what in poll.poll(0))

    def _note(self, sentence: str) -> None:
        print(f"note: {printable(sentence)}", file=sys.stderr, flush=True)


def _cells(event: EventRow) -> list[str]:
    by = f" (by {event.actor}: {event.reason})" if event.actor and event.reason else ""
    if not by and (event.actor or event.reason):
        by = f" (by {event.actor})" if event.actor else f" ({event.reason})"
    return [str(event.revision), local(event.at), event.instance or "-", sentence(event) + by]


def _kinds(asked: list[str] | None) -> list[str] | None:
    if not asked:
        return None
    found: list[str] = []
    for wanted in asked:
        matching = [kind for kind in TELL if kind == wanted or kind.startswith(f"{wanted.rstrip('.')}.")]
        if not matching:
            raise Refused(f"there is no kind {wanted!r}; there are {', '.join(TELL)}", code="malformed")
        found += matching
    return found
