"""`manage.py fleet`: which instances there are, who is missing in them, and why."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from controlplane.management.documents import fleet_document, instance_document, launch_document, rank_document
from controlplane.management.operating import NOTHING, OK, OperatorCommand
from controlplane.queries import fleet
from controlplane.queries.explain import explain_instance, who_leads, why_in_short
from controlplane.queries.rows import FleetRow, InstanceRow, RankRow
from controlplane.queries.wording import ago, listing

SHOWN_RANKS = 64


class Command(OperatorCommand):
    help = "Show every instance with its readiness and who is missing, or explain one instance."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", metavar="NAME", help="explain this instance, and list its ranks")
        parser.add_argument("--all", action="store_true", help="show retired instances too")
        self.add_json(parser)

    def operate(self, options: dict[str, Any]) -> int:
        now = time.time()
        if options["name"] is not None:
            return self._explain(options["name"], now, as_json=options["json"])
        found = fleet.fleet(now=now)
        shown = [instance for instance in found.instances if options["all"] or not instance.retired]
        if options["json"]:
            self.print_json({**fleet_document(found, now=now), "instances": [_short_document(i, now) for i in shown]})
            return OK if shown else NOTHING
        if not shown:
            self.say("There is no instance yet: one comes into being when its first rank registers.")
            self._notes(found, now)
            return NOTHING
        coming = any(instance.candidate for instance in shown)
        columns = ["NAME", "ROLE", "STATE", "RANKS", "HEALTH", *(["CANDIDATE"] if coming else []), "WHY"]
        self.table(columns, [_line(instance, now, coming=coming) for instance in shown])
        self._notes(found, now)
        return OK

    def _notes(self, found: FleetRow, now: float) -> None:
        """What concerns all of them."""
        if not found.leader.leads(now):
            self.say(who_leads(found.leader, now=now))
        if len(found.sharing) > 1:
            self.say(
                f"{listing(found.sharing)} share port {settings.PDCP_KV_PORT}: whoever names none of them is refused (503)."
                " Name one by /i/NAME/, by X-PD-Instance, as bootstrap_host NAME:x@host, or give it a port of its own."
            )

    def _explain(self, name: str, now: float, *, as_json: bool) -> int:
        with fleet.snapshot():
            instance, found = fleet.instance(name, now=now)
            sentences = explain_instance(name, now=now)
            ranks = fleet.ranks(instance.id, term=found.leader.token)
            launches = fleet.launches(instance.id)
            departed = fleet.departed(instance.id, [launch.number for launch in launches], term=found.leader.token)
        if as_json:
            document = {
                **instance_document(instance),
                "why": sentences[0],
                "explanation": sentences,
                "ranks": [rank_document(rank) for rank in ranks],
                "departed": [rank_document(rank) for rank in departed],
                "launches": [launch_document(launch) for launch in launches],
            }
            self.print_json({**fleet_document(found, now=now), "instance": document})
            return OK
        for sentence in sentences:
            self.say(sentence)
        if ranks:
            self.say()
            self.table(
                ["LAUNCH", "RANK", "ADDRESS", "CONTACT", "SEEN", "FLAGS"],
                [_rank_line(rank, now) for rank in ranks[:SHOWN_RANKS]],
            )
            if len(ranks) > SHOWN_RANKS:
                self.say(f"… and {len(ranks) - SHOWN_RANKS} more; --json has them all.")
        if instance.left:
            self.say()
            self.say("Left lately:")
            self.table(
                ["LAUNCH", "RANK", "ADDRESS", "WHEN", "WHY"],
                [[str(r.launch), r.name, r.address, ago(r.left_at or now, now), r.left_reason] for r in instance.left],
            )
        return OK


def _short_document(instance: InstanceRow, now: float) -> dict[str, Any]:
    return {**instance_document(instance), "why": why_in_short(instance, now=now)}


def _line(instance: InstanceRow, now: float, *, coming: bool) -> list[str]:
    current, candidate = instance.current, instance.candidate
    why = why_in_short(instance, now=now)
    # Name and state stand in columns of their own.
    for said in (f"{instance.name} is ", f"{instance.name} has ", "not serving: ", "serving: "):
        why = why.removeprefix(said)
    line = [instance.name, instance.role, instance.state, current.progress if current else "-", str(instance.health)]
    if coming:
        line.append(candidate.missing_sentence(limit=2) if candidate else "-")
    return [*line, why]


def _rank_line(rank: RankRow, now: float) -> list[str]:
    return [
        str(rank.launch),
        rank.name,
        rank.address,
        rank.contact if rank.verified or rank.contact == "unprobed" else f"{rank.contact} (before our restart)",
        ago(rank.seen_at, now),
        ",".join(rank.flags) or "-",
    ]
