"""`manage.py explain`: whether an instance, a DP group or the fleet can be sent work, and why not; or where a room stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser

from controlplane.domain.errors import Refused
from controlplane.domain.questions import Answer, Inquiry
from controlplane.domain.routable import Reason, Verdict
from controlplane.management.documents import inquiry_document, room_way_document, verdict_document
from controlplane.management.operating import NOTHING, OK, OperatorCommand, local
from controlplane.management.questions import HEADINGS, question_lines
from controlplane.management.repeating import Print, watch
from controlplane.queries import inquiry, routable
from controlplane.queries.evidence import evidence, read_room
from controlplane.queries.explain import explain_instance
from controlplane.queries.fleet import snapshot
from controlplane.queries.routable import RoutableRow
from controlplane.queries.wording import ago


class Command(OperatorCommand):
    help = (
        "Say whether an instance can be sent work, and the whole story of why or why not; or where a room stopped. Exit code 1:"
        " it cannot, or something about the room says no."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", metavar="NAME", help="the instance")
        parser.add_argument("--routable", action="store_true", help="a line for every instance and DP group instead")
        parser.add_argument(
            "--room", metavar="ROOM", help="instead: how far the way of a room is proven, and where it stopped"
        )
        parser.add_argument("--dp", type=int, metavar="GROUP", help="only this DP group")
        parser.add_argument(
            "--gateway", metavar="NAME", help="as this gateway (or router:NAME) has it, not all together"
        )
        parser.add_argument("--watch", action="store_true", help="go on, and print anew what changes, until Ctrl+C")
        self.add_json(parser, what="one JSON document (with --watch, one a line)")

    def operate(self, options: dict[str, Any]) -> int:
        if (options["name"] is not None) + options["routable"] + (options["room"] is not None) != 1:
            raise Refused("name an instance, or say --routable or --room ROOM", code="malformed")
        code = OK
        ask = self._room if options["room"] is not None else self._fleet if options["routable"] else self._instance

        def look(now: float) -> tuple[Any, Print]:
            nonlocal code
            code, content, show = ask(options, now)
            return content, lambda: self._show(show, now, options)

        if options["watch"]:
            watch(look)
        else:
            look(time.time())[1]()
        return code

    def _show(self, show: Print, now: float, options: dict[str, Any]) -> None:
        if options["watch"] and not options["json"]:
            self.say(f"--- {local(now)}")
        show()
        self.stdout.flush()

    def _instance(self, options: dict[str, Any], now: float) -> tuple[int, Any, Print]:
        name, dp = options["name"], options["dp"]
        with snapshot():
            row = routable.instance(name, now=now, gateway=options["gateway"])
            story = explain_instance(name, now=now)
            found = inquiry.inquire(name, now=now)
        verdict = row.of(dp)
        what = name if dp is None else f"DP group {dp} of {name}"
        document = {
            "name": name,
            "dp": dp,
            **verdict_document(verdict),
            "explanation": story,
            **inquiry_document(found),
            "groups": [{"dp": group.group, **verdict_document(group.verdict)} for group in row.groups if dp is None],
        }

        def show() -> None:
            if options["json"]:
                self.print_json(document)
                return
            self.say(f"{what} is {'routable' if verdict.routable else f'not routable: {verdict.because}'}.")
            self.say()
            self._reasons(verdict, now)
            self.say()
            for sentence in story:
                self.say(sentence)
            if dp is None:
                self._inquiry(found, now)

        return (OK if verdict.routable else NOTHING), [*_content(verdict, row), _asked(found.answers)], show

    def _room(self, options: dict[str, Any], now: float) -> tuple[int, Any, Print]:
        with snapshot():
            found = evidence(read_room(options["room"]), now=now)
        end = found.ladder.conclusion

        def show() -> None:
            if options["json"]:
                self.print_json(room_way_document(found))
                return
            self.table(list(HEADINGS), question_lines(found.answers, now))
            self.say()
            self.say(f"{end.head} {end.sentence}")
            if end.next:
                self.say(f"Next: {end.next}")

        failed = any(answer.is_cause for answer in found.answers)
        return (NOTHING if failed else OK), [end.kind, end.head, _asked(found.answers)], show

    def _inquiry(self, found: Inquiry, now: float) -> None:
        self.say()
        self.table(list(HEADINGS), question_lines(found.answers, now))
        self.say()
        self.say(f"{found.outcome.head} {found.outcome.sentence.rstrip('.')}.")
        if found.outcome.next:
            self.say(f"Next: {found.outcome.next}")

    def _fleet(self, options: dict[str, Any], now: float) -> tuple[int, Any, Print]:
        rows = [row for row in routable.instances(now=now, gateway=options["gateway"]) if not row.instance.retired]
        document = {
            "instances": [
                {
                    "name": row.name,
                    "role": row.role,
                    **verdict_document(row.verdict),
                    "groups": [{"dp": group.group, **verdict_document(group.verdict)} for group in row.groups],
                }
                for row in rows
            ]
        }

        def show() -> None:
            if options["json"]:
                self.print_json(document)
            elif rows:
                self.table(
                    ["NAME", "DP", "ROLE", "ROUTABLE", "RANKS", "WHY"], [line for row in rows for line in _lines(row)]
                )
            else:
                self.say("There is no instance yet: one comes into being when its first rank registers.")

        return (
            (OK if any(row.routable for row in rows) else NOTHING),
            [_content(row.verdict, row) for row in rows],
            show,
        )

    def _reasons(self, verdict: Verdict, now: float) -> None:
        self.table(
            ["FACT", "SAYS", "SINCE", "CONFIRMED", "WHY"],
            [
                [
                    str(reason.fact),
                    "no" if reason.blocks else "yes",
                    ago(reason.since, now) if reason.since is not None else "-",
                    _confirmed(reason, now),
                    reason.sentence,
                ]
                for reason in verdict.reasons
            ],
        )


def _confirmed(reason: Reason, now: float) -> str:
    if reason.seen_at is None:
        return "old" if reason.old else "-"
    return f"{ago(reason.seen_at, now)}{' (old)' if reason.old else ''}"


def _content(verdict: Verdict, row: RoutableRow) -> Any:
    """What would be news: verdicts and reasons, not how long ago anything was confirmed."""
    return [
        row.name,
        [(reason.code, reason.sentence, reason.blocks, reason.old) for reason in verdict.reasons],
        [(group.group, group.verdict.routable, group.verdict.because) for group in row.groups],
        [(drain.id, drain.progress, drain.blockers) for drain in row.instance.drains],
    ]


def _asked(answers: Sequence[Answer]) -> Any:
    return [(answer.key, answer.verdict.value, answer.code) for answer in answers]


def _lines(row: RoutableRow) -> list[list[str]]:
    current = row.instance.current
    ranks = current.progress if current else "-"
    lines = [[row.name, "-", row.role, _word(row.verdict), ranks, row.verdict.because]]
    # Groups that are all as the instance is need no lines of their own.
    if any(group.verdict.routable != row.routable or not row.routable for group in row.groups) and len(row.groups) > 1:
        lines += [
            ["", str(group.group), "", _word(group.verdict), f"{group.registered}/{group.size}", group.verdict.because]
            for group in row.groups
        ]
    return lines


def _word(verdict: Verdict) -> str:
    if not verdict.routable:
        return "no"
    return "yes (old)" if any(reason.old for reason in verdict.reasons) else "yes"
