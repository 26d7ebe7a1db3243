"""The web process alone."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import pytest

from tests.support.processes import ROOT

get = partial(httpx.get, timeout=30)


@contextmanager
def web(backend, **knobs: object) -> Iterator[tuple[subprocess.Popen, str]]:
    env = {**backend.env, "PDCP_WEB_PORT": "0", "PDCP_ENV_FILE": "/dev/null", **knobs}
    process = subprocess.Popen(
        [sys.executable, "manage.py", "web"], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_it_says_where_it_serves_and_ends_with_0_when_asked_to(sqlite_backend, number):
    with web(sqlite_backend) as (process, said):
        assert said.startswith("web ready http://127.0.0.1:")
        url = said.split()[2]
        assert get(f"{url}/sign-in/").status_code == 200
        process.send_signal(number)
        assert process.wait(40) == 0


def test_alone_without_redis_it_serves_and_says_that_it_is_not_ready(sqlite_backend):
    with web(sqlite_backend) as (_, said):
        url = said.split()[2]
        assert get(f"{url}/livez").status_code == 200
        ready = get(f"{url}/readyz")
        assert ready.status_code == 503
        assert ready.json()["checks"] == {
            "database": "ok",
            "migrations": "ok",
            "redis": "REDIS_URL is not set",
            "process": "ok",
        }


def test_before_migrations_it_is_alive_and_not_ready(sqlite_backend, tmp_path):
    empty = tmp_path / "empty"
    with web(sqlite_backend, PDCP_DATA_DIR=str(empty)) as (_, said):
        checks = get(f"{said.split()[2]}/readyz").json()["checks"]
        assert "migrate_all" in checks["migrations"]


def test_a_name_that_is_not_allowed_is_refused(sqlite_backend):
    with web(sqlite_backend) as (_, said):
        url = said.split()[2]
        assert get(url, headers={"Host": "evil.example"}).status_code == 400


def test_a_taken_port_ends_it_with_3_and_a_sentence(sqlite_backend):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "manage.py", "web"],
            cwd=ROOT,
            env={**sqlite_backend.env, "PDCP_WEB_PORT": str(port)},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 3
    assert str(port) in done.stderr
    assert "PDCP_WEB_PORT" in done.stderr
    assert done.stderr.count("\n") == 1
