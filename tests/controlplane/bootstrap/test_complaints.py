"""Requests that are refused because nobody can tell whom they mean: told once, and of no instance."""

from __future__ import annotations

import json

from tests.cases.ranks import eventually
from tests.support.plugin import Backend
from tests.wire.client import Client
from tests.wire.operators import rows

REFUSED = "SELECT instance, data FROM controlplane_event WHERE kind = 'registration.refused' ORDER BY revision"


def test_a_nameless_request_to_a_shared_listener_is_told_once_and_of_no_instance(
    make_bootstrap, sqlite_backend: Backend
):
    bootstrap = make_bootstrap(sqlite_backend).start()
    nameless = Client(bootstrap.kv_port)
    assert nameless.put().status == 200, "nobody else is there yet"
    for name in ("a", "b"):
        assert Client(bootstrap.kv_port, headers={"X-PD-Instance": name}).put(rank_port=41001).status == 200
    assert [nameless.put().status for _ in range(3)] == [503] * 3
    assert nameless.topology().status == 503
    eventually(lambda: len(rows(sqlite_backend, REFUSED)) == 1)
    ((instance, data),) = rows(sqlite_backend, REFUSED)
    told = json.loads(data)
    assert (instance, told["what"], told["source"]) == ("", "PUT /route", "127.0.0.1")
    assert "3 instances share this listener (default, a, b)" in told["sentence"]
    assert [nameless.put().status, len(rows(sqlite_backend, REFUSED))] == [503, 1]
