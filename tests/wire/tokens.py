"""Tokens for processes under test: made and revoked by the command, as an operator would."""

import json
from typing import Any

from tests.support.plugin import Backend
from tests.support.processes import manage


def with_admin(backend: Backend) -> None:
    """An administrator named `ann`, who answers for the tokens."""
    done = manage("createsuperuser", "--noinput", "--username", "ann", "--email", "", env=backend.env)
    assert done.returncode == 0, done.stderr


def tokens(backend: Backend, *arguments: str) -> Any:
    done = manage("tokens", *arguments, "--json", env=backend.env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make(backend: Backend, name: str, *verbs: str, instance: str = "", expires: str = "1h") -> str:
    where = ["--instance", instance] if instance else []
    made = tokens(backend, "make", name, *(f"--may={verb}" for verb in verbs), *where, "--expires", expires)
    return str(made["token"])


def revoke(backend: Backend, token: str) -> None:
    assert tokens(backend, "revoke", token[:15])["changed"]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
