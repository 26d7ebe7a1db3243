"""/livez and /readyz of the web process."""

import asyncio
import json

import pytest
from django.test import Client, RequestFactory

from controlplane.web import health

REQUEST = RequestFactory().get("/readyz")


async def read() -> tuple[int, dict]:
    response = await health.readyz(REQUEST)
    return response.status_code, json.loads(response.content)


async def test_livez_depends_on_nothing(monkeypatch):
    monkeypatch.setattr(health, "CHECKS", {"database": _fail})
    assert (await health.livez(REQUEST)).status_code == 200


@pytest.mark.parametrize("host", ["10.244.3.7:8000", "[fd00::7]:8000", "web.pdcp.svc"])
def test_an_orchestrator_asks_by_an_address_that_nobody_could_allow_and_people_do_not(host, monkeypatch):
    monkeypatch.setattr(health, "CHECKS", {})
    by_address = Client(headers={"host": host})
    assert by_address.get("/livez").status_code == 200
    assert by_address.get("/readyz").json()["status"] == "ready"
    # A token is asked for as ever, and pages and API stay with ALLOWED_HOSTS.
    assert by_address.get("/metrics").status_code == 401
    assert [by_address.get(path).status_code for path in ("/", "/sign-in/", "/api/v1/fleet", "/livez/")] == [400] * 4


async def test_readyz_answers_503_and_names_the_check_that_failed(monkeypatch):
    monkeypatch.setattr(health, "CHECKS", {"database": lambda: None, "redis": _fail})
    status, body = await read()
    assert (status, body["status"]) == (503, "not ready")
    assert body["checks"]["database"] == "ok"
    assert body["checks"]["redis"] == "failed (ConnectionError)"


async def test_readyz_says_when_the_process_is_shutting_down(monkeypatch):
    monkeypatch.setattr(health, "CHECKS", {})
    monkeypatch.setattr(health, "shutting_down", asyncio.Event())
    assert (await read())[0] == 200
    health.shutting_down.set()
    status, body = await read()
    assert (status, body["checks"]["process"]) == (503, "shutting down")


async def test_a_check_that_hangs_is_not_waited_for(monkeypatch):
    done = asyncio.Event()
    monkeypatch.setattr(health, "CHECK_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(health, "CHECKS", {"database": _slow})
    status, body = await asyncio.wait_for(read(), 20)
    assert status == 503
    assert body["checks"]["database"].startswith("no answer")
    done.set()


async def test_without_redis_and_with_migrations_open_it_is_not_ready(monkeypatch, tmp_path):
    status, body = await read()
    assert status == 503
    assert body["checks"]["redis"] == "REDIS_URL is not set"


def _fail() -> None:
    raise ConnectionError("postgres://user:secret@host refused")


def _slow() -> None:
    import time

    time.sleep(2)


@pytest.mark.usefixtures("database")
def test_migrations_count_as_done_on_a_migrated_database():
    health._migrations()
