"""Engines on the pages: how they are, how old that word is, who they say they are, and what a person can do about it."""

import time

import pytest

from controlplane.commands import examining, instances
from controlplane.commands.examining import Examiner
from controlplane.databases import FACTS
from controlplane.models import EngineHealth, Lease
from controlplane.queries import attention
from tests.dashboard.conftest import text_of
from tests.doubles.engine import Engine

WHO = {"actor": "anna"}


@pytest.fixture
def engine(on_backend, monkeypatch):
    monkeypatch.setattr(examining, "SPREAD_SECONDS", 0.0)
    monkeypatch.setattr(examining.settings, "PDCP_HEALTH_INTERVAL_SECONDS", 0.000_001)
    Lease.objects.using(FACTS).filter(name="bootstrap").update(token=1, holder="test pid 1", expires_at=time.time())
    with Engine("decode", model="glm-<5>") as running:
        instances.add("d", role="decode", engine_url=running.url, **WHO)
        yield running


def look(times: int = 1) -> None:
    for _ in range(times):
        Examiner(again=False).round()
    attention.forget()


def test_an_instance_shows_its_engine_with_ages(engine, operator):
    said = text_of(operator.get("/instances/d/"))
    assert "Engine health unknown" in said and "Engine asked not yet" in said
    look()
    html = operator.get("/instances/d/")
    said = text_of(html)
    assert "observed up" in said and "Engine health up" in said and "Engine asked" in said
    assert "glm-<5> 0.5.23" in said and "<5>" not in html, "what others say is text"
    assert "Engine holds 0 running, 0 waiting" in said
    assert "Its engine is up for" in said and "Probe now" in said


def test_the_overview_says_how_it_is_who_it_is_and_what_needs_a_person(engine, operator):
    look()
    said = text_of(operator.get("/"))
    assert "glm-<5> 0.5.23" in said and "decodes do not register" not in said
    engine.stop()
    look(3)
    said = text_of(operator.get("/"))
    assert "takes no requests: its engine does not" in said and "refuses connections" in said
    assert "takes no requests" in text_of(operator.get("/?q=observed:down"))


def test_a_word_that_nobody_renews_is_shown_as_old(engine, operator):
    look()
    EngineHealth.objects.using(FACTS).update(asked_at=time.time() - 600)
    said = text_of(operator.get("/instances/d/"))
    assert "Engine asked old" in said and "this is old, and stays until somebody asks again" in said


def test_probes_of_one_instance_are_edited_where_it_is_edited(engine, operator):
    assert "unhealthy after" in text_of(operator.get("/act/edit?on=d"))
