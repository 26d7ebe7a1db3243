"""People of a control plane that runs elsewhere: an account with a role, and the cookie of a session of theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.support.processes import manage

MAKE = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
store = import_module(settings.SESSION_ENGINE).SessionStore
made = {{}}
for name, role in {people!r}.items():
    user = User.objects.get_or_create(username=name)[0]
    user.set_password({password!r})
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


def session_keys(env: Mapping[str, str], people: Mapping[str, str] = PEOPLE) -> dict[str, str]:
    """Make these accounts, and a session of each: its key is the value of the cookie `sessionid`."""
    done = manage("shell", "-c", MAKE.format(people=dict(people), password=PASSWORD), env=env)
    said = next((line for line in done.stdout.splitlines() if line.startswith("made ")), None)
    assert said is not None, done.stdout + done.stderr
    return json.loads(said.removeprefix("made "))
