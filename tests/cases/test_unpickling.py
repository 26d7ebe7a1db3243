"""Public reports: nothing that arrives is ever unpickled, evaluated or loaded as code."""

import ast
import base64
import contextlib
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
import redis
import zmq
from celery import Celery
from django.core.cache.backends.redis import RedisCache

import tests.controlplane.conftest  # noqa: F401  (Django in this process, on databases that vanish with it)
from tests.cases.test_routers import peer
from tests.controlplane.probes.answering import reply
from tests.supervisor.conftest import redis_url, up
from tests.support.processes import ROOT
from tests.wire.client import Client, engine_info, rank
from tests.wire.raw import request

__all__ = ["redis_url", "up"]

LOADERS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__"}
METHODS = {"recv_pyobj", "send_pyobj", "unsafe_load", "full_load", "allow_pickle"}
TORCH = {("torch", "load"), ("numpy", "load"), ("np", "load")}
GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\x00") + bytes(32)


def suspicious(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.split(".")[0] in LOADERS)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in LOADERS:
                yield module
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield name
            case ast.Attribute(value=ast.Name(id=of), attr=attr) if attr in METHODS or (of, attr) in TORCH:
                yield f"{of}.{attr}"
            case ast.keyword(arg=str(arg)) if arg in METHODS:
                yield arg


def test_SEC_03_the_source_has_no_way_to_load_code_from_data():
    found = {
        str(path.relative_to(ROOT)): list(suspicious(ast.parse(path.read_text(encoding="utf-8"))))
        for package in ("controlplane", "workers", "dashboard")
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    assert len(found) > 200
    assert {path: what for path, what in found.items() if what} == {}
    # The search finds what it looks for.
    proof = "import pickle\nfrom yaml import load\neval('1')\nsocket.recv_pyobj()\ntorch.load(x)"
    assert len(list(suspicious(ast.parse(proof)))) == 5


def test_SEC_03_what_django_celery_and_channels_load_by_themselves_is_json():
    from django.conf import settings

    from controlplane.celery import app

    assert (
        list(app.conf.accept_content) == ["json"] and app.conf.task_serializer == app.conf.result_serializer == "json"
    )
    assert settings.SESSION_SERIALIZER == "django.contrib.sessions.serializers.JSONSerializer"


class Evil:
    """Whoever unpickles it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    at = tmp_path / "marker"
    pickle.loads(pickle.dumps(Evil(at)))
    assert at.exists(), "it would work"
    at.unlink()
    yield at
    assert not at.exists()


def pickles(marker: Path) -> list[bytes]:
    return [pickle.dumps(Evil(marker), protocol) for protocol in (0, 2, pickle.HIGHEST_PROTOCOL)]


def as_bytes(port: int, evil: bytes) -> None:
    """Alone, behind the greeting of ZeroMQ, and as the body of a request."""
    heads = [b"", GREETING + b"\x00" + bytes([min(len(evil), 255)])]
    for kind in ("application/x-python-pickle", "application/octet-stream", "application/json"):
        for method, path in (
            ("PUT", "/route"),
            ("POST", "/register_dp_rank"),
            ("PUT", "/register_transfer_engine_info"),
        ):
            heads.append(request(method, path, evil, {"Content-Type": kind}).removesuffix(evil))
    for head in heads:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw, contextlib.suppress(OSError):
            raw.sendall(head + evil)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65_536):
                pass


def as_values(run, evil: bytes) -> None:
    """In the fields of requests that are otherwise right."""
    web, kv, engine = (Client(run.ports[f"PDCP_{name}_PORT"]) for name in ("WEB", "KV", "ENGINE_INFO"))
    for value in (evil.decode("latin-1"), base64.b64encode(evil).decode()):
        sent = [
            kv("PUT", "/i/evil/route", js=rank(kv_cache_dtype=value, load_balance_method=value)),
            kv("PUT", "/i/evil/route", js=rank(rank_ip=value)),
            kv("POST", "/i/evil/register_dp_rank", js={"bootstrap_room": value, "dp_rank": value}),
            kv("POST", "/i/evil/query_dp_ranks", js={"bootstrap_rooms": [value]}),
            kv("POST", "/i/evil/pd/v1/heartbeats", js={"worker": value, "launch_token": value}),
            engine("PUT", "/register_transfer_engine_info", js=engine_info(tp_rank=0, session=value)),
            engine("PUT", "/register_transfer_engine_info", js=engine_info(tp_rank=0, weights={value: [1, 2, 3]})),
            kv("GET", "/route", headers={"X-PD-Instance": quote(value), "X-PD-Generation": quote(value)}),
            web("GET", f"/i/{quote(value, safe='')}/route"),
            web("GET", "/admin/", headers={"Cookie": f"sessionid={quote(value)}; csrftoken={quote(value)}"}),
            web("POST", "/api/v1/instances", js={"name": value}, headers={"Authorization": f"Bearer {quote(value)}"}),
        ]
        assert all(answer.status < 500 or answer.status == 503 for answer in sent), sent


def as_task(url: str, marker: Path) -> None:
    """The clockwork's own queue, with a message that says of itself that it is a pickle."""
    stranger = Celery(broker=url, set_as_current=False)
    stranger.conf.broker_transport_options = {"global_keyprefix": "pdcp:"}
    stranger.send_task("controlplane.tasks.drains.check_drains", args=[Evil(marker)], serializer="pickle")


def into_redis(server: "redis.Redis[bytes]", evil: bytes) -> None:
    """Whoever can write to Redis is trusted with much, but not with code."""
    for channel in {b"pdcp:committed", *server.pubsub_channels()}:
        server.publish(channel, evil)
    server.set("pdcp:1:readyz", evil)


def test_SEC_03_pickles_to_every_socket_are_bytes_like_others(up, redis_url, marker):
    run = up(REDIS_URL=redis_url, PDCP_PROBE_NETWORKS="none").wait_ready()
    with redis.Redis.from_url(redis_url) as server:
        for evil in pickles(marker):
            for port in run.ports.values():
                as_bytes(port, evil)
            as_values(run, evil)
            into_redis(server, evil)
            assert Client(run.ports["PDCP_WEB_PORT"])("GET", "/readyz").status == 200, "it has read the cache"
        as_task(redis_url, marker)
        run.wait_for("ContentDisallowed|Refusing to deserialize")
    listening = [
        connection.laddr.ip
        for process in run.family()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3 and set(listening) == {"127.0.0.1"}, "not on all interfaces"
    assert "child died" not in run.output


def test_SEC_03_the_cache_is_read_as_json_and_what_is_not_is_not_there(redis_url, marker):
    from django.conf import settings

    from controlplane.caching import JsonSerializer

    assert "CACHES" in dir(settings)
    cache = RedisCache(redis_url, {"OPTIONS": {"serializer": "controlplane.caching.JsonSerializer"}})
    with redis.Redis.from_url(redis_url) as server:
        for evil in pickles(marker):
            server.set(cache.make_key("k"), evil)
            assert cache.get("k", "nothing") in ("nothing", None)
    for value in (0, 41, True, None, "text", [1, {"a": 2.5}]):
        cache.set("k", value, 60)
        assert cache.get("k") == value
    cache.set("n", 41)
    assert cache.incr("n") == 42 and JsonSerializer().dumps(42) == 42


def test_SEC_03_what_peers_answer_is_not_unpickled_either(marker):
    import asyncio

    from controlplane.domain.errors import Refused
    from controlplane.probes.loads import read_loads
    from controlplane.probes.outgoing import policy
    from controlplane.probes.routers import RouterClient
    from controlplane.probes.workers import why_not_ready
    from controlplane.probes.zmtp import greet

    for evil in pickles(marker):
        with peer(reply("200 OK\r\ncontent-type: application/x-python-pickle", evil)) as engine:
            with pytest.raises(Refused):
                asyncio.run(read_loads(engine.url, "", now=1.0))
            with pytest.raises(Refused):
                asyncio.run(RouterClient(engine.url, "", "", policy(())).workers())
            assert asyncio.run(why_not_ready(engine.url, kind="prefill")) != ""
            assert asyncio.run(greet("127.0.0.1", engine.port, timeout=0.5)) == "silent"
            assert len(engine.requests) >= 4


def test_SEC_03_frames_to_a_simulated_rank_are_thrown_away(marker):
    from controlplane.simulation.listener import Doors

    doors, context = Doors("127.0.0.1"), zmq.Context()
    context.linger = 0
    try:
        rank_ = doors.open()
        push = context.socket(zmq.PUSH)
        push.connect(f"tcp://127.0.0.1:{rank_.port}")
        for evil in pickles(marker):
            push.send_multipart([b"room", evil])
            as_bytes(rank_.port, evil)
        rank_.close()
    finally:
        context.destroy(linger=0)
        doors.close()
