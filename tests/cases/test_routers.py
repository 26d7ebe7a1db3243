"""Public reports about routers and about what registering an address can be used for: the part that is decided here."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.controlplane.probes.answering import Heard, answering, garbage, reply
from tests.controlplane.routers.conftest import _shared_router, fleet, on_backend, router, start_router

__all__ = ["_shared_router", "fleet", "on_backend", "router", "start_router"]


@contextmanager
def peer(answer) -> Iterator[Heard]:
    """An answering server for code that has no event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving = answering(answer)
    heard = asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(10)
    try:
        yield heard
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def settle(until) -> None:
    from controlplane.commands import routers
    from tests.controlplane.routers.real import eventually

    def once() -> bool:
        routers.reconcile()
        return bool(until())

    eventually(once)


def test_RTR_14_a_url_is_one_worker_with_one_share_and_a_role_that_changes_leaves_nothing_behind(fleet, router):
    from controlplane.commands import routers
    from tests.controlplane.routers.fleet import WHO
    from tests.controlplane.routers.real import eventually

    # Its metric counts prefills of one bootstrap port together, and knows one port only: so there is one at a time.
    engine = fleet.prefill("w")
    fleet.prefill("p")
    fleet.decode("d")
    fleet.serve(router, instances=["d", "w"])
    for _ in range(3):
        routers.reconcile()
        assert router.urls().count(engine.url) == 1
        eventually(lambda: router.pool() == {"prefill": 1, "decode": 1})
    assert {router.generate() for _ in range(4)} == {200}
    assert engine.served["/generate"] == 4

    fleet.set("w", role="decode", own_port=None)
    engine.role = "decode"
    settle(lambda: router.pool() == {"decode": 2})
    assert [worker["worker_type"] for worker in router.workers()] == ["decode", "decode"]
    assert router.generate() == 503, "nobody takes it for a prefill any more"
    assert engine.count("/generate") == 4

    routers.edit("r", instances=["d", "p", "w"], **WHO)
    settle(lambda: router.pool() == {"prefill": 1, "decode": 2})
    assert {router.generate() for _ in range(10)} == {200}
    shares = [fleet.engines[name].served["/generate"] for name in "pdw"]
    assert shares == [10, 4 + 5, 4 + 5], "one share each"

    routers.edit("r", instances=["d", "p"], **WHO)
    settle(lambda: router.pool() == {"prefill": 1, "decode": 1})
    assert engine.url not in router.urls()
    asked = engine.count("/generate")
    assert {router.generate() for _ in range(10)} == {200}
    assert engine.count("/generate") == asked, "after one removal nothing refers to it"


def test_RTR_08_a_prefill_whose_bootstrap_port_is_not_its_own_is_not_put_in(fleet, router):
    from tests.controlplane.routers.fleet import member

    for name in ("a", "b"):
        fleet.prefill(name)
    fleet.decode("d")
    fleet.serve(router)
    settle(lambda: {worker.get("bootstrap_port") for worker in router.workers()} == {18_001, 18_002, None})
    assert {router.generate() for _ in range(20)} == {200}
    for name, port in (("a", 18_001), ("b", 18_002)):
        bodies = [asked.body for asked in fleet.engines[name].asked if asked.path == "/generate"]
        assert len(bodies) == 10 and {body["bootstrap_port"] for body in bodies} == {port}
    # Without ports of their own both would be the same to a decode.
    fleet.set("a", own_port=None)
    fleet.set("b", own_port=None)
    settle(lambda: router.urls() == [fleet.engines["d"].url])
    assert "no bootstrap port of its own" in member("a").sentence


NOT_FOR_US = [
    "http://127.0.0.1:5432",
    "http://127.0.0.1:6379",
    "http://10.0.0.1:22",
    "http://10.0.1.10:30000@10.0.66.6/",
    "file:///etc/hosts",
    "http://169.254.169.254/latest/meta-data",
    "http://8.8.8.8:30000",
]


@pytest.mark.parametrize("url", NOT_FOR_US)
def test_SEC_05_only_http_to_allowed_networks_and_ports_can_be_named(fleet, url):
    from controlplane.commands import routers
    from controlplane.domain.errors import Refused
    from controlplane.queries import routers as queries
    from tests.controlplane.routers.fleet import WHO

    for given in ({"url": url}, {"url": "http://127.0.0.1:30000", "metrics_url": url}):
        with pytest.raises(Refused):
            routers.add("r", instances=[], **given, **WHO)
    assert queries.listing() == ()


def test_SEC_05_our_own_ports_are_not_asked_whatever_they_are_called(fleet):
    from django.conf import settings

    from controlplane.commands import routers
    from controlplane.domain.errors import Refused
    from tests.controlplane.routers.fleet import WHO

    for port in (settings.PDCP_KV_PORT, settings.PDCP_ENGINE_INFO_PORT, settings.PDCP_WEB_PORT):
        with pytest.raises(Refused, match="this control plane itself"):
            routers.add("r", f"http://127.0.0.1:{port}", [], **WHO)
    # A name tells nothing until it is resolved; a listener of an instance is ours as well.
    with peer(reply("200 OK", b'{"workers": []}')) as ours:
        fleet.prefill("a", own_port=ours.port)
        routers.add("r", f"http://localhost:{ours.port}", ["a"], **WHO)
        routers.reconcile()
        assert ours.requests == []


def test_SEC_05_a_redirect_is_not_followed_and_nothing_that_was_read_is_told(fleet):
    from controlplane.commands import routers
    from controlplane.ledger.tail import after
    from controlplane.queries import routers as queries
    from tests.controlplane.routers.fleet import WHO

    with peer(reply("200 OK", b'{"workers": [], "SECRET": 1}')) as inner:
        with (
            peer(reply(f"302 Found\r\nlocation: {inner.url}/workers", b"SECRET")) as redirecting,
            peer(garbage) as banner,
            peer(reply("500 SECRET", b"SECRET")) as failing,
            peer(reply("200 OK", b"SECRET")) as other,
        ):
            for place, one in enumerate((redirecting, banner, failing, other)):
                routers.add(f"r{place}", one.url, [], **WHO)
            routers.reconcile()
            rows = queries.listing()
        assert [row.state for row in rows] == ["away"] * 4 and inner.requests == []
    assert "SECRET" not in repr(rows) + repr(after(0))


def test_SEC_06_every_engine_gets_its_own_key_and_nobody_the_router_s(fleet, start_router, caplog):
    from controlplane.commands import routers
    from controlplane.ledger.tail import after
    from controlplane.queries import routers as queries
    from tests.controlplane.routers.fleet import WHO, member

    router = start_router("--api-key", "key-R")
    a = fleet.prefill("a", key="key-A", given="key-A")
    b = fleet.prefill("b", key="key-B")
    c = fleet.decode("c")
    router.http.headers["authorization"] = "Bearer key-R"
    fleet.serve(router, api_key="key-R")
    routers.reconcile()
    assert router.urls() == sorted([a.url, c.url])
    assert {asked.key for asked in a.asked} <= {"", "key-A"} and "key-A" in {asked.key for asked in a.asked}
    assert {asked.key for asked in b.asked} == {asked.key for asked in c.asked} == {""}
    assert member("b").sentence == "authentication failed: the engine asks for a key, and none is known here"
    assert not member("b").present
    # Written, and never shown again.
    shown = repr(queries.listing()) + repr(after(0)) + caplog.text
    assert not any(key in shown for key in ("key-R", "key-A", "key-B")) and queries.router("r").has_key

    routers.edit("r", api_key="wrong", **WHO)
    routers.reconcile()
    row = queries.router("r")
    assert row.state == "away" and "authentication failed" in row.problem and "wrong" not in row.problem
