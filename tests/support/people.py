"""People of a control plane that runs elsewhere: an account with a role, and the cookie of a session of theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.support.processes import manage

MAKE = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
store = import_module(settings.SESSION_ENGINE).SessionStore
made = {{"": {encoded!r} or make_password({password!r})}}
for name, role in {people!r}.items():
    user = User.objects.get_or_create(username=name)[0]
    user.password = made[""]
    user.save()
    user.groups.set([Group.objects.get(name=role)] if role else [])
    session = store()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    made[name] = session.session_key
print("made " + json.dumps(made))
"""
PASSWORD = "correct horse battery staple"
PEOPLE = {"vera": "viewer", "olga": "operator", "anna": "admin", "nobody": ""}
"""Whom tests know, and the group each is in."""

_encoded = ""
"""The password as it is stored: a fifth of a second to compute, so that is done once."""


def session_keys(env: Mapping[str, str], people: Mapping[str, str] = PEOPLE) -> dict[str, str]:
    """Make these accounts, and a session of each: its key is the value of the cookie `sessionid`."""
    global _encoded
    code = MAKE.format(people=dict(people), password=PASSWORD, encoded=_encoded)
    done = manage("shell", "--no-imports", "-c", code, env=env)
    said = next((line for line in done.stdout.splitlines() if line.startswith("made ")), None)
    assert said is not None, done.stdout + done.stderr
    keys: dict[str, str] = json.loads(said.removeprefix("made "))
    _encoded = keys.pop("")
    return keys
