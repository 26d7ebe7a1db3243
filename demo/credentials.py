"""`python -m demo.credentials`: tables, an administrator, tokens and instances, before the control plane starts.

One process, since each start of Django costs a second. On stdin {"password", "tokens": {name: [verb]}, "instances":
[[name, role, [word]]]}, on stdout {"tokens": {name: text}}.
"""

from __future__ import annotations

import io
import json
import sys

import django
from django.core.management import call_command

from .plan import USER


def main() -> int:
    asked = json.load(sys.stdin)
    django.setup()
    from django.contrib.auth import get_user_model

    call_command("migrate_all", verbosity=0)
    users = get_user_model().objects
    user = users.filter(username=USER).first() or users.create_superuser(USER)
    user.set_password(asked["password"])
    user.save()
    tokens = {}
    for name, verbs in asked["tokens"].items():
        may = [word for verb in verbs for word in ("--may", verb)]
        tokens[name] = json.loads(_said("tokens", "make", name, *may, "--json", "--actor", USER))["token"]
    known = {item["name"] for item in json.loads(_said("instances", "list", "--json"))["instances"]}
    for name, role, words in asked["instances"]:
        if name not in known:
            _said("instances", "add", name, "--role", role, *words, "--actor", USER, "--reason", "the demo")
        elif words:
            # In a directory that was kept: it may have other ports now.
            _said("instances", "edit", name, *words, "--actor", USER, "--reason", "the demo")
    print(json.dumps({"tokens": tokens}))
    return 0


def _said(*words: str) -> str:
    out = io.StringIO()
    try:
        call_command(*words, stdout=out)
    except SystemExit as end:
        # 1 of a list: it is empty.
        if end.code not in (0, 1):
            raise
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())
