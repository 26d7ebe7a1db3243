"""People of each role, signed in, on a backend of its own."""

import itertools

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.controlplane.commands.on_backend import on_backend

__all__ = ["on_backend"]

ROLES = ("viewer", "operator", "admin")


# An address of its own for each test: what is refused to one address is kept so many times a minute only.
_addresses = itertools.count(1)


def client_of(user: User | None = None, *, address: str = "10.9.8.7") -> Client:
    client = Client(SERVER_NAME="localhost", REMOTE_ADDR=address)
    if user is not None:
        client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])
    return client


@pytest.fixture
def people(on_backend) -> dict[str, Client]:
    """A signed-in client for each role, by its name; `nobody` is signed in and has no role, `stranger` is not signed in.

    None of them is `is_staff`: that means nothing here.
    """
    address = f"10.9.8.{next(_addresses)}"
    clients = {"stranger": client_of(address=address)}
    for name in (*ROLES, "nobody"):
        user = User.objects.create_user(f"{name}-ann")
        if name in ROLES:
            user.groups.add(Group.objects.get(name=name))
        clients[name] = client_of(user, address=address)
    return clients
