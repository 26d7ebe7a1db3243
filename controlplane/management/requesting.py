"""What commands share that ask the bootstrap process for something: a slot, a wait, and its answer in its own words."""

from __future__ import annotations

import re
import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import requests
from controlplane.domain.errors import Refused
from controlplane.domain.topology import Slot
from controlplane.queries.explain import who_leads
from controlplane.queries.fleet import fleet
from controlplane.queries.wording import slot_key

from .auditing import attempted
from .operating import NOTHING, OK, OperatorCommand, os_user

AXIS = re.compile(r"(dp|cp|tp|pp)(\d{1,5})")
KINDS = {
    "evict": "take one rank, or all, out of the directory, whether they answer or not",
    "supersede": "put a full candidate launch in charge although the old one still answers",
    "readmit": "register those that left again, if they answer a probe",
    "reregister": "have workers register again, or re-admit those that answer",
}
FOR_EVER = 365 * 86_400.0


class RequestingCommand(OperatorCommand):
    """`kind` says what is asked; None: the first argument does."""

    kind: str | None = None

    def add_arguments(self, parser: CommandParser) -> None:
        if self.kind is None:
            parser.add_argument("kind", choices=list(KINDS))
        parser.add_argument("name", metavar="NAME", help="the instance")
        parser.add_argument("--slot", metavar="dp0.cp0.tp1.pp0", help="only this rank; axes left out are 0")
        parser.add_argument(
            "--launch", type=int, metavar="NUMBER", help="evict, supersede: this launch only, and none that began since"
        )
        parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the ledger")
        parser.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
        wait = parser.add_mutually_exclusive_group()
        wait.add_argument(
            "--wait", type=float, default=10, metavar="SECONDS", help="for the answer (default 10; 0: do not wait)"
        )
        wait.add_argument("--watch", action="store_true", help="wait for the answer, however long it takes")
        self.add_json(parser)

    def operate(self, options: dict[str, Any]) -> int:
        kind, name = self.kind or options["kind"], options["name"]
        slot = read_slot(options["slot"]) if options["slot"] is not None else None
        patience = FOR_EVER if options["watch"] else options["wait"]
        if not 0 <= patience < float("inf"):
            raise Refused("--wait is a number of seconds, 0 or more", code="malformed")
        actor = options["actor"] or os_user()
        number = attempted(
            lambda: requests.make(kind, name, slot, launch=options["launch"], actor=actor, reason=options["reason"]),
            action=kind,
            target=f"{name} {slot_key(slot)}" if slot is not None else name,
            options=options,
            told=lambda number: f"request {number} is with the bootstrap process",
        )
        try:
            answer = requests.wait_for_answer(number, timeout=patience) if patience else None
        except KeyboardInterrupt:
            # The request stays in the inbox; only nobody waits for it any more.
            answer = None
        if options["json"]:
            self.print_json(
                {
                    "request": number,
                    "kind": kind,
                    "instance": name,
                    "slot": slot_key(slot) if slot is not None else None,
                    "answered": answer is not None,
                    "granted": answer.granted if answer is not None else None,
                    "answer": answer.sentence if answer is not None else None,
                }
            )
        elif answer is not None:
            self.say(f"{'Granted' if answer.granted else 'Refused'}: {answer.sentence}.")
        else:
            self._not_answered(number, patience)
        if not patience:
            return OK
        return OK if answer is not None and answer.granted else NOTHING

    def _not_answered(self, number: int, waited: float) -> None:
        if not waited or waited == FOR_EVER:
            self.say(f"Request {number} is in the inbox; `manage.py events --kind request` shows its answer.")
            return
        now = time.time()
        leader = fleet(now=now).leader
        why = "" if leader.leads(now) else f" {who_leads(leader, now=now)}"
        self.say(f"Request {number} was not answered within {waited:g} s; it stays in the inbox and will be.{why}")


def read_slot(text: str) -> Slot:
    """A slot as `dp1.tp3`, or as it is printed elsewhere: `dp1 cp0 tp3 pp0`.

    >>> read_slot("dp1 tp3")
    Slot(dp=1, cp=0, tp=3, pp=0)
    """
    axes: dict[str, int] = {}
    for part in re.split(r"[.,\s]+", text.strip()):
        found = AXIS.fullmatch(part)
        if found is None or found[1] in axes:
            raise Refused(f"{text!r} is not a slot such as dp0.cp0.tp1.pp0", code="malformed")
        axes[found[1]] = int(found[2])
    return Slot(**{axis: axes.get(axis, 0) for axis in ("dp", "cp", "tp", "pp")})
