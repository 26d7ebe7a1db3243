"""`manage.py purge`: what is stale, what a purge of it would take away, and the purge itself."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import purging, requests
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.management.acting import duration
from controlplane.management.auditing import attempted
from controlplane.management.operating import NOTHING, OK, OperatorCommand, moment, os_user
from controlplane.queries.stale import ArchivedRow, StaleRow, archive, ended, stale
from controlplane.queries.wording import ago, counted, slot_key

LISTED = 100


class Command(OperatorCommand):
    help = (
        "Without a name: list what is stale. With names: end these instances for good; retired ones, none of whose ranks"
        " answers. With --launches: take launches out of the archive."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="instances to purge")
        parser.add_argument("--launches", action="store_true", help="list the archive; with --older-than, purge it")
        parser.add_argument("--instance", metavar="NAME", help="with --launches: only of this one")
        parser.add_argument("--older-than", metavar="AGE", help="only what has been so for so long: 90s, 12h, 30d")
        parser.add_argument("--dry-run", action="store_true", help="say what would go, and do nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--override", action="store_true", help="also an instance that is not retired, or whose ranks answer"
        )
        parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the ledger")
        parser.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
        parser.add_argument("--wait", type=float, default=10, metavar="SECONDS", help="for each answer (default 10)")
        self.add_json(parser)

    def operate(self, options: dict[str, Any]) -> int:
        if options["names"] and options["launches"]:
            raise Refused("name instances, or say --launches, not both", code="malformed")
        if not 0 <= options["wait"] < float("inf"):
            raise Refused("--wait is a number of seconds, 0 or more", code="malformed")
        age = duration(options["older_than"]) if options["older_than"] is not None else None
        if options["launches"]:
            return self._launches(options, age)
        if options["names"]:
            return self._instances(options)
        return self._list(age or 0.0, as_json=options["json"])

    def _list(self, age: float, *, as_json: bool) -> int:
        now = time.time()
        rows, launches = stale(now=now, older_than=age), ended()
        if as_json:
            counts = {"waiting": launches.waiting, "archived": launches.archived}
            self.print_json({"instances": [_document(row) for row in rows], "launches": counts})
            return OK if rows else NOTHING
        if rows:
            cells = [
                [row.instance, row.what, ago(row.since, now), f"{row.answering}/{row.registered}", row.reason]
                for row in rows
            ]
            self.table(["INSTANCE", "IS", "SINCE", "ANSWER", "WHY"], cells)
        else:
            self.say("No instance is stale.")
        self.say(f"Launches that ended: {launches.waiting} in the tables, {launches.archived} in the archive.")
        return OK if rows else NOTHING

    def _instances(self, options: dict[str, Any]) -> int:
        now = time.time()
        plans = [purging.plan(name, now=now) for name in dict.fromkeys(options["names"])]
        told: list[dict[str, Any]] = []
        if not options["json"]:
            for plan in plans:
                self.say(f"{plan.instance}:")
                for sentence in [*plan.sentences, *([f"needs --override: {plan.alive}"] if plan.alive else [])]:
                    self.say(f"  {sentence}")
        if options["dry_run"]:
            told = [{"instance": plan.instance, "alive": plan.alive, "would": list(plan.sentences)} for plan in plans]
            if options["json"]:
                self.print_json({"dry_run": True, "instances": told})
            return OK
        if not self._confirmed(options, [plan.instance for plan in plans]):
            return NOTHING
        codes = [self._purge(plan.instance, options, told) for plan in plans]
        if options["json"]:
            self.print_json({"dry_run": False, "instances": told})
        return OK if all(codes) else NOTHING

    def _purge(self, name: str, options: dict[str, Any], told: list[dict[str, Any]]) -> bool:
        actor = options["actor"] or os_user()
        try:
            number = attempted(
                lambda: purging.purge(name, override=options["override"], actor=actor, reason=options["reason"]),
                action="instance.purge",
                target=name,
                options=options,
                told=lambda number: f"request {number} is with the bootstrap process",
            )
        except Refused as refused:
            # One that is refused keeps nothing from the next.
            told.append({"instance": name, "request": None, "granted": False, "answer": refused.sentence})
            if not options["json"]:
                self.complain(refused.sentence)
            return False
        answer = requests.wait_for_answer(number, timeout=options["wait"])
        said = answer.sentence if answer is not None else f"request {number} is in the inbox, and will be answered"
        granted = answer.granted if answer is not None else None
        told.append({"instance": name, "request": number, "granted": granted, "answer": said})
        if not options["json"]:
            self.say(f"{'Refused: ' if granted is False else ''}{said}.")
        return bool(granted)

    def _confirmed(self, options: dict[str, Any], names: list[str]) -> bool:
        if options["yes"] or options["json"]:
            return True
        if not self.on_terminal:
            raise Refused("say --yes, or --dry-run: nobody can be asked here", code="malformed")
        what = names[0] if len(names) == 1 else f"purge {len(names)}"
        try:
            typed = input(f"Type {what} to confirm: ")
        except EOFError:
            typed = ""
        return typed.strip() == what

    def _launches(self, options: dict[str, Any], age: float | None) -> int:
        now = time.time()
        if age is None:
            return self._archive(options, now)
        said = {"instance": options["instance"], "older_than": age, "now": now, "reason": options["reason"]}
        said["actor"] = options["actor"] or os_user()
        gone = purging.purge_archive(**said, dry_run=True)
        if not options["dry_run"] and gone.count:
            if not options["json"]:
                self.say(f"{gone.sentence}.")
            if not self._confirmed(options, ["launches"]):
                return NOTHING
            gone = attempted(lambda: purging.purge_archive(**said), action="archive.purge", target="", options=options)
        if options["json"]:
            self.print_json({"dry_run": options["dry_run"], "count": gone.count, "sentence": gone.sentence})
        else:
            self.say(f"{gone.sentence}.")
        return OK if gone.count else NOTHING

    def _archive(self, options: dict[str, Any], now: float) -> int:
        rows = archive(instance=options["instance"], limit=LISTED)
        if options["json"]:
            self.print_json([_archived(row) for row in rows])
        elif rows:
            cells = [
                [row.instance, str(row.number), ago(row.ended_at, now), counted(row.rank_count, "rank"), _why(row)]
                for row in rows
            ]
            self.table(["INSTANCE", "LAUNCH", "ENDED", "RANKS", "WHY"], cells)
        else:
            self.say("The archive is empty.")
        return OK if rows else NOTHING


def _why(row: ArchivedRow) -> str:
    return f"replaced by launch {row.replaced_by}" if row.replaced_by is not None else row.ended_reason


def _document(row: StaleRow) -> dict[str, Any]:
    return {
        "instance": row.instance,
        "role": row.role,
        "what": row.what,
        "since": moment(row.since),
        "reason": row.reason,
        "registered": row.registered,
        "answering": row.answering,
        "alive": row.alive,
    }


def _archived(row: ArchivedRow) -> dict[str, Any]:
    dp, cp, tp, pp = row.topology
    ranks = [{**rank, "slot": slot_key(Slot(*rank["slot"]))} for rank in row.ranks]
    for rank in ranks:
        rank |= {key: moment(rank[key]) for key in ("first_at", "seen_at", "left_at")}
    return {
        "instance": row.instance,
        "number": row.number,
        "state": row.state,
        "replaced_by": row.replaced_by,
        "token": row.token,
        "topology": {"dp": dp, "cp": cp, "tp": tp, "pp": pp},
        "opened_at": moment(row.opened_at),
        "completed_at": moment(row.completed_at),
        "ended_at": moment(row.ended_at),
        "ended_reason": row.ended_reason,
        "first_seen_at": moment(row.first_seen_at),
        "last_seen_at": moment(row.last_seen_at),
        "archived_at": moment(row.archived_at),
        "ranks": ranks,
    }
