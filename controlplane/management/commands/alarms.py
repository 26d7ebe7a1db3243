"""`manage.py alarms`: what is alarmed about, who looks after it, and whether the webhook takes messages."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import alarm_posting, alarms
from controlplane.domain.runbooks import RUNBOOKS
from controlplane.management.auditing import attempted
from controlplane.management.operating import NOTHING, OK, OperatorCommand, moment, os_user
from controlplane.queries import alarms as queries
from controlplane.queries.alarms import AlarmRow, NoticeRow
from controlplane.queries.wording import ago, span

AT_ONCE = 200


class Command(OperatorCommand):
    help = "List, show and acknowledge alarms; see what the webhook was told, and try it out."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="those that are open, the worst first")
        listing.add_argument("--all", action="store_true", help="also those that are over, the newest first")
        listing.add_argument("--severity", choices=queries.SEVERITIES)
        listing.add_argument("--instance", metavar="NAME", help="about this instance")
        show = actions.add_parser("show", help="one alarm: why, what to do, and what the webhook was told of it")
        ack = actions.add_parser("ack", help="say that somebody looks after it, and why nobody else must")
        for action in (show, ack):
            action.add_argument("alarm", type=int, metavar="NUMBER")
        ack.add_argument("--reason", required=True, metavar="TEXT", help="who does what about it, for the ledger")
        ack.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
        sent = actions.add_parser("notices", help="what the webhook was told, the newest first")
        sent.add_argument("--state", choices=queries.NOTICE_STATES)
        trial = actions.add_parser("test", help="send the webhook a test message, and say what it answered")
        for action in (listing, show, ack, sent, trial):
            self.add_json(action)

    def operate(self, options: dict[str, Any]) -> int:
        ways = {"list": self._list, "show": self._show, "ack": self._ack, "notices": self._notices, "test": self._test}
        return ways[options["action"]](options)

    def _list(self, options: dict[str, Any]) -> int:
        now = time.time()
        status = None if options["all"] else "open"
        found = queries.listing(
            status=status, severity=options["severity"], instance=options["instance"], limit=AT_ONCE + 1
        )
        rows = list(found[:AT_ONCE]) if options["all"] else queries.worst_first(found[:AT_ONCE])
        if options["json"]:
            self.print_json([alarm_document(row) for row in rows])
        elif rows:
            self.table(["ALARM", "SEVERITY", "STATUS", "SINCE", "WHAT"], [_line(row, now) for row in rows])
        else:
            self.say("No alarm." if options["all"] else "No alarm is open.")
        if len(found) > AT_ONCE:
            self.stderr.write(f"note: only the newest {AT_ONCE} are shown")
        return OK if rows else NOTHING

    def _show(self, options: dict[str, Any]) -> int:
        row = queries.alarm(options["alarm"])
        sent = queries.notices(alarm=row.id, limit=20)
        if options["json"]:
            self.print_json({**alarm_document(row), "notices": [notice_document(one) for one in sent]})
            return OK
        now = time.time()
        self.say(f"{row.severity}: {row.sentence} (alarm {row.id}, since {span(now - row.since)}).")
        for line in _story(row, now):
            self.say(line)
        book = RUNBOOKS[row.runbook]
        self.say(f"It means: {book.means}")
        self.say(f"Look at: {'; '.join(book.look)}.")
        self.say(f"Then: {'; '.join(book.do)}.")
        for one in reversed(sent):
            self.say(f"The webhook: {_notice_line(one, now)}.")
        return OK

    def _ack(self, options: dict[str, Any]) -> int:
        actor, reason = options["actor"] or os_user(), options["reason"]
        done = attempted(
            lambda: alarms.acknowledge(options["alarm"], actor=actor, reason=reason),
            action="alarm.acknowledge",
            target=f"alarm {options['alarm']}",
            options=options,
        )
        if options["json"]:
            self.print_json({"alarm": done.alarm, "changed": done.changed, "sentence": done.sentence})
        else:
            self.say(f"{done.sentence}.")
        return OK

    def _notices(self, options: dict[str, Any]) -> int:
        now = time.time()
        found = queries.notices(state=options["state"], limit=AT_ONCE)
        if options["json"]:
            self.print_json([notice_document(row) for row in found])
            return OK if found else NOTHING
        if found:
            lines = [
                [str(row.alarm or "-"), row.kind, row.state, ago(row.made_at, now), _notice_line(row, now)]
                for row in found
            ]
            self.table(["ALARM", "KIND", "STATE", "MADE", "WHAT CAME OF IT"], lines)
        self.say(f"{queries.post().sentence(now)}.")
        return OK if found else NOTHING

    def _test(self, options: dict[str, Any]) -> int:
        notice, answer = alarm_posting.try_out()
        said = (
            f"{queries.where()} took it in {answer.took:.2f} s"
            if answer.taken
            else f"{queries.where()} did not take it: {answer.problem}"
        )
        if options["json"]:
            taken = {"id": notice.notice, "taken": answer.taken, "status": answer.status, "problem": answer.problem}
            self.print_json({**taken, "took_seconds": round(answer.took, 3), "sentence": said})
        else:
            self.say(f"{said}.")
        return OK if answer.taken else NOTHING


def alarm_document(row: AlarmRow) -> dict[str, Any]:
    return {
        "alarm": row.id,
        "key": row.key,
        "status": row.status,
        "severity": row.severity,
        "state": row.state,
        "instance": row.instance,
        "sentence": row.sentence,
        "why": row.why,
        "next": row.next,
        "runbook": row.runbook,
        "count": row.count,
        "since": moment(row.since),
        "raised_at": moment(row.raised_at),
        "clear_since": moment(row.clear_since),
        "resolved_at": moment(row.resolved_at),
        "flapping": row.flapping,
        "acknowledged": {
            "at": moment(row.acknowledged_at),
            "by": row.acknowledged_by,
            "reason": row.acknowledged_reason,
        },
        "told": row.told,
    }


def notice_document(row: NoticeRow) -> dict[str, Any]:
    return {
        "id": row.notice,
        "alarm": row.alarm or None,
        "kind": row.kind,
        "state": row.state,
        "made_at": moment(row.made_at),
        "due_at": moment(row.due_at) if row.state == "waiting" else None,
        "attempts": row.attempts,
        "status": row.status,
        "problem": row.problem,
        "took_seconds": row.took_seconds,
        "ended_at": moment(row.ended_at),
    }


def _line(row: AlarmRow, now: float) -> list[str]:
    status = "acknowledged" if row.acknowledged and row.status == "open" else row.status
    flaps = ", flapping" if row.flapping and row.status == "open" else ""
    return [str(row.id), row.severity, status, span(now - row.since), f"{row.sentence}{flaps}"]


def _story(row: AlarmRow, now: float) -> list[str]:
    said = [row.why] if row.why else []
    said.append(f"Next: {row.next}.")
    if row.acknowledged_at is not None:
        said.append(
            f"{row.acknowledged_by} looks after it since {ago(row.acknowledged_at, now)}: {row.acknowledged_reason}."
        )
    if row.resolved_at is not None:
        said.append(f"It is over since {ago(row.resolved_at, now)}.")
    elif row.clear_since is not None:
        said.append(f"It is not so any more since {ago(row.clear_since, now)}, and over once that lasts.")
    if row.flapping:
        said.append(f"It flaps: it came back {row.returns} times.")
    return said


def _notice_line(row: NoticeRow, now: float) -> str:
    if row.state == "delivered":
        return f"{row.kind} was taken {ago(row.ended_at or now, now)} ({row.status}, attempt {row.attempts})"
    due = f"; tried again in {span(max(0.0, row.due_at - now))}" if row.state == "waiting" else ""
    return (
        f"{row.kind} {row.state.replace('_', ' ')} after {row.attempts} attempts: {row.problem or 'not sent yet'}{due}"
    )
