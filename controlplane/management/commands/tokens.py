"""`manage.py tokens`: make, list and revoke the tokens of workers, gateways and scripts."""

from __future__ import annotations

import re
import time
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from controlplane.access import links, tokens
from controlplane.access.roles import TOKEN_VERBS
from controlplane.domain.errors import Refused
from controlplane.management.auditing import attempted
from controlplane.management.operating import NOTHING, OK, OperatorCommand, local, moment, os_user

DEFAULT_LIFE = "90d"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Command(OperatorCommand):
    help = "Make, list and revoke tokens of workers, gateways and scripts. A token is shown once, when it is made."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        make = actions.add_parser("make", help="a new token; its text is printed this once")
        make.add_argument("name", metavar="NAME", help="what it is for, such as prefill-a or ci")
        make.add_argument(
            "--may",
            action="append",
            required=True,
            choices=TOKEN_VERBS,
            metavar="VERB",
            help=f"what it may do: {', '.join(TOKEN_VERBS)}; may be given several times",
        )
        make.add_argument("--instance", default="", metavar="NAME", help="on this instance alone (default: on all)")
        make.add_argument(
            "--expires", default=DEFAULT_LIFE, metavar="TIME", help="30m, 12h, 90d or never (default: %(default)s)"
        )
        make.add_argument("--user", metavar="NAME", help="the account that answers for it (default: an administrator)")
        revoke = actions.add_parser("revoke", help="end a token at once")
        revoke.add_argument("key", metavar="KEY", help="its first characters, as `list` shows them")
        for action in (make, revoke):
            action.add_argument("--reason", default="", metavar="TEXT", help="why, for the ledger")
            action.add_argument("--actor", metavar="NAME", help="who (default: the user of this shell)")
            self.add_json(action)
        self.add_json(actions.add_parser("list", help="all of them, never their text"))

    def operate(self, options: dict[str, Any]) -> int:
        if options["action"] == "list":
            return self._list(as_json=options["json"])
        work, target = (self._make, options["name"]) if options["action"] == "make" else (self._revoke, options["key"])
        actor = options["actor"] or os_user()
        attempted(
            lambda: work(options, actor),
            action=f"token.{options['action']}",
            # Whoever pastes a whole token to revoke it: all but its beginning is a secret.
            target=target if options["action"] == "make" else target[: tokens.KEY_LENGTH],
            options=options,
            told=str,
        )
        return OK

    def _make(self, options: dict[str, Any], actor: str) -> str:
        now = time.time()
        user = _account(options["user"])
        made, text = tokens.make(
            options["name"],
            options["may"],
            options["instance"],
            _expiry(options["expires"], now),
            user,
            options["reason"],
            actor=actor,
            now=now,
        )
        row = tokens.row_of(made, now=now)
        if options["json"]:
            self.print_json({**_document(row), "token": text})
        else:
            until = local(row.expires_at) if row.expires_at is not None else "never"
            self.stderr.write(f"{row.name} ({row.key}…) may {', '.join(row.verbs)}; expires: {until}.")
            self.stderr.write("This is the only time that it is shown:")
            # Alone on stdout, so that it can be put into a file or a variable.
            self.say(text)
        return f"made {row.key}"

    def _revoke(self, options: dict[str, Any], actor: str) -> str:
        # Whoever pastes a whole token means the one that begins so; it is not repeated anywhere.
        key = options["key"][: tokens.KEY_LENGTH]
        changed = tokens.revoke(key, actor, options["reason"])
        sentence = f"{key}… is revoked" if changed else f"{key}… was revoked before"
        if options["json"]:
            self.print_json({"key": key, "changed": changed, "sentence": sentence})
        else:
            self.say(f"{sentence}.")
        return sentence

    def _list(self, *, as_json: bool) -> int:
        found = tokens.listing()
        if as_json:
            self.print_json([_document(row) for row in found])
        elif found:
            columns = ["KEY", "NAME", "STATE", "MAY", "INSTANCE", "EXPIRES", "LAST USED", "MADE BY"]
            self.table(columns, [_line(row) for row in found])
        else:
            self.say("There is no token yet: make one.")
        return OK if found else NOTHING


def _account(name: str | None) -> Any:
    """The account that answers for a token: the one that is named, the shell user's own, or the first administrator."""
    active = get_user_model().objects.filter(is_active=True)
    if name is not None:
        user = active.filter(username=name).first()
        if user is None:
            raise Refused(f"there is no active account {name}", code="not_found")
        return user
    administrators = active.filter(is_superuser=True).order_by("pk")
    user = administrators.filter(username=os_user()).first()
    if user is not None:
        return user
    try:
        return links.administrator()
    except links.LinkRefused as refused:
        raise Refused(f"somebody must answer for a token. {refused}", code="not_found") from None


def _expiry(text: str, now: float) -> float | None:
    if text.lower() == "never":
        return None
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if not found:
        raise Refused(f"--expires is a time such as 30m, 12h or 90d, or never; not {text!r}", code="malformed")
    return now + int(found[1]) * SECONDS[found[2]]


def _document(row: tokens.TokenRow) -> dict[str, Any]:
    return {
        "key": row.key,
        "name": row.name,
        "state": row.state,
        "may": list(row.verbs),
        "instance": row.instance or None,
        "made_by": row.made_by,
        "made_at": moment(row.made_at),
        "expires_at": moment(row.expires_at),
        "last_used_at": moment(row.last_used_at),
        "revoked_at": moment(row.revoked_at),
        "revoked_by": row.revoked_by or None,
    }


def _line(row: tokens.TokenRow) -> list[str]:
    return [
        f"{row.key}…",
        row.name,
        row.state,
        ",".join(row.verbs),
        row.instance or "(all)",
        local(row.expires_at) if row.expires_at is not None else "never",
        local(row.last_used_at) if row.last_used_at is not None else "-",
        row.made_by,
    ]
