"""Who asks `/health` at the door, and over whose connection."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.bootstrap.fleet import Instance
from controlplane.bootstrap.kv_door import KvDoor
from controlplane.bootstrap.tenancy import Meant
from controlplane.domain.directory import Debt, Directory


def poll(instance: Instance, headers: dict[bytes, bytes]) -> int:
    door: Any = SimpleNamespace(
        check_reader=lambda _: True,
        meant=lambda _: Meant(instance.name, instance, True),
        tally=SimpleNamespace(polls={}),
    )
    connection = SimpleNamespace(number=1, polled=set())
    request: Any = SimpleNamespace(head=SimpleNamespace(headers=headers), connection=connection)
    return KvDoor.begin_health(door, request, b"").status


@pytest.mark.parametrize("said", [b"via", b"forwarded", b"x-forwarded-for", b"x-forwarded-proto"])
def test_what_a_proxy_says_of_itself_makes_its_connection_one_of_several_decodes(said):
    debt = Debt(time.time(), hold=False)
    plain, behind = (Instance(n, "a", directory=Directory("a", debt=debt)) for n in (1, 2))
    for _ in range(2):
        assert poll(plain, {b"connection": b"keep-alive"}) == 503
        assert poll(behind, {b"connection": b"keep-alive", said: b"1.1 envoy"}) == 503
    assert plain.pollers.waiting(time.monotonic()) == 0
    assert behind.pollers.waiting(time.monotonic()) == 1
