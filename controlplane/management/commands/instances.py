"""`manage.py instances`: add, list, edit and retire instances."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from controlplane.commands import instances
from controlplane.domain.errors import Refused
from controlplane.management.auditing import attempted
from controlplane.management.documents import fleet_document, instance_document
from controlplane.management.operating import NOTHING, OK, OperatorCommand, local, os_user
from controlplane.queries import fleet
from controlplane.queries.rows import InstanceRow

ROLES = ("prefill", "decode", "seed")
OBSERVE = "poll its own KV bootstrap server (of a decode: its HTTP server) for what would be registered here"
PROBING: tuple[tuple[str, str, type, str], ...] = (
    ("probe-seconds", "SECONDS", float, "ask its engine this often, and not as often as all"),
    ("fail-after", "MISSES", int, "so many in a row make its engine unhealthy"),
    ("pass-after", "ANSWERS", int, "so many in a row make it healthy again"),
)


class Command(OperatorCommand):
    help = "Add, list, edit and retire instances."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        add = actions.add_parser("add", help="a new instance, or a retired one again")
        add.add_argument("name", metavar="NAME")
        add.add_argument("--role", choices=ROLES, default="prefill")
        add.add_argument("--own-port", type=int, metavar="PORT", help="a KV port that means this instance alone")
        add.add_argument("--host-alias", metavar="NAME", help="a DNS name that means this instance alone")
        add.add_argument("--engine-url", default="", metavar="URL", help="its engine's HTTP server, asked for its load")
        add.add_argument("--observe", default="", metavar="URL", help=OBSERVE)
        add.add_argument("--observe-info", default="", metavar="URL", help="poll its own engine-info server as well")
        for option, metavar, kind, meaning in PROBING:
            add.add_argument(f"--{option}", type=kind, metavar=metavar, help=meaning)
        edit = actions.add_parser("edit", help="change or take away its port, its alias or its URLs")
        edit.add_argument("name", metavar="NAME")
        for option, metavar, kind in (
            ("own-port", "PORT", int),
            ("host-alias", "NAME", str),
            ("engine-url", "URL", str),
            ("observe", "URL", str),
            ("observe-info", "URL", str),
            *((option, metavar, kind) for option, metavar, kind, _ in PROBING),
        ):
            either = edit.add_mutually_exclusive_group()
            either.add_argument(f"--{option}", type=kind, metavar=metavar)
            either.add_argument(f"--no-{option}", action="store_true")
        key = edit.add_mutually_exclusive_group()
        # A key on the command line could be read by everybody on this host.
        for parser_or_group in (add, key):
            parser_or_group.add_argument(
                "--engine-key-file", metavar="FILE", help="holds the API key that the engine wants; - is standard input"
            )
        key.add_argument("--no-engine-key", action="store_true")
        retire = actions.add_parser("retire", help="end it: its wire answers 404")
        retire.add_argument("name", metavar="NAME")
        for action in (add, edit, retire):
            action.add_argument("--reason", default="", metavar="TEXT", help="why, for the ledger")
            action.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
            action.add_argument(
                "--if-version", type=int, metavar="V", help="only while it is at this version, else say what changed"
            )
            self.add_json(action)
        self.add_json(actions.add_parser("list", help="all of them, retired ones too"))

    def operate(self, options: dict[str, Any]) -> int:
        if options["action"] == "list":
            return self._list(as_json=options["json"])
        done = attempted(
            lambda: self._change(options),
            action=f"instance.{options['action']}",
            target=options["name"],
            options=options,
        )
        if options["json"]:
            self.print_json(
                {"name": done.name, "changed": done.changed, "sentence": done.sentence, "advice": list(done.advice)}
            )
            return OK
        self.say(f"{done.sentence}.")
        for advice in done.advice:
            self.stderr.write(f"advice: {advice}.")
        return OK

    def _change(self, options: dict[str, Any]) -> instances.Done:
        name = options["name"]
        who: dict[str, Any] = {"actor": options["actor"] or os_user(), "reason": options["reason"]}
        who["expected"] = options["if_version"]
        if options["action"] == "retire":
            return instances.retire(name, **who)
        key = _key(options["engine_key_file"])
        if options["action"] == "add":
            return instances.add(
                name,
                role=options["role"],
                own_port=options["own_port"],
                host_alias=options["host_alias"],
                engine_url=options["engine_url"],
                engine_key=key or "",
                observed_url=options["observe"],
                observed_engine_info_url=options["observe_info"],
                probe_seconds=options["probe_seconds"],
                fail_after=options["fail_after"],
                pass_after=options["pass_after"],
                **who,
            )
        return instances.edit(
            name,
            own_port=_wanted(options["own_port"], clear=options["no_own_port"]),
            host_alias=_wanted(options["host_alias"], clear=options["no_host_alias"]),
            engine_url=_wanted(options["engine_url"], clear=options["no_engine_url"]),
            engine_key=_wanted(key, clear=options["no_engine_key"]),
            observed_url=_wanted(options["observe"], clear=options["no_observe"]),
            observed_engine_info_url=_wanted(options["observe_info"], clear=options["no_observe_info"]),
            probe_seconds=_wanted(options["probe_seconds"], clear=options["no_probe_seconds"]),
            fail_after=_wanted(options["fail_after"], clear=options["no_fail_after"]),
            pass_after=_wanted(options["pass_after"], clear=options["no_pass_after"]),
            **who,
        )

    def _list(self, *, as_json: bool) -> int:
        now = time.time()
        found = fleet.fleet(now=now)
        if as_json:
            documents = [instance_document(instance) for instance in found.instances]
            self.print_json({**fleet_document(found, now=now), "instances": documents})
        elif found.instances:
            columns = ["NAME", "ROLE", "INTENT", "STATE", "RANKS", "PORT", "ALIAS", "ADDED"]
            self.table(columns, [_line(instance) for instance in found.instances])
        else:
            self.say("There is no instance yet: add one, or register a rank.")
        return OK if found.instances else NOTHING


def _wanted(value: Any, *, clear: bool) -> Any:
    if clear:
        return None
    return instances.KEEP if value is None else value


def _key(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as problem:
        raise Refused(f"cannot read {file}: {type(problem).__name__}", code="malformed") from None
    return text.strip()


def _line(instance: InstanceRow) -> list[str]:
    return [
        instance.name,
        instance.role,
        instance.intent,
        instance.state,
        instance.current.progress if instance.current else "-",
        str(instance.own_port or "-"),
        instance.host_alias or "-",
        local(instance.created_at),
    ]
