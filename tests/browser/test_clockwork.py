"""The clockwork page in a browser: what really runs is on it, and a beat that is killed leaves only a short gap."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.supervisor.conftest import command_of
from tests.support.operator import Operator, make_token

pytestmark = pytest.mark.timeout(300)
LOOKS = [(size, theme) for size in ("wide", "narrow") for theme in ("light", "dark")]
FAILED = """
import time
from controlplane.models import TaskFailure
said = {"outcome": "failed", "error": "OperationalError: database is locked", "ran_by": "host-a pid 4711", "number": 1207}
TaskFailure.objects.using("traffic").create(task="check_drains", since=time.time() - 700, at=time.time() - 640, count=31, **said)
"""


@pytest.fixture(scope="module")
def operator(running: Site) -> Operator:
    """Somebody who asks the API meanwhile; all tasks have run once."""
    running.manage("shell", "-c", FAILED)
    asks = Operator(running.url, make_token(running.up.env, "ann", "read", "operate"), "none")
    asks.until("clockwork", lambda said: all(task["standing"] == "runs" for task in said["tasks"]))
    return asks


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_it_is_accessible_and_fits_its_window(site: Site, operator: Operator, size, theme):
    look = site.open("/clockwork/", size=size, theme=theme)
    expect(look.page.get_by_text("are on time")).to_be_visible()
    expect(look.page.locator("[data-key='check_drains']")).to_contain_text("ok")
    expect(look.page.get_by_role("region", name="Table of rounds that failed")).to_contain_text("database is locked")
    look.live()
    look.shoot(f"clockwork-{'400-' if size == 'narrow' else ''}{theme}")
    look.check()


def test_a_letter_leads_there_and_the_frame_says_that_it_is_at_work(site: Site, operator: Operator):
    look = site.open("/")
    look.page.keyboard.press("g")
    look.page.keyboard.press("c")
    expect(look.page).to_have_url(re.compile(r"/clockwork/$"))
    expect(look.page.locator("[data-part='frame']")).to_contain_text("clockwork at work")


def test_rounds_are_counted_on_while_somebody_looks(site: Site, operator: Operator):
    look = site.open("/clockwork/")
    count = look.page.locator("[data-key='check_drains'] [data-l='Round']")
    expect(count).not_to_have_text(count.inner_text())


def test_when_beat_is_killed_the_supervisor_starts_it_again_and_rounds_go_on(site: Site, operator: Operator):
    worker = site.up.child("celery")
    (beat,) = [one for one in worker.children() if "celery" in command_of(one)] or worker.children()[:1]
    beat.kill()
    site.up.wait_for("beat is gone")
    before = number(operator)
    operator.until("clockwork", lambda said: rounds(said) > before + 2)
    said = operator.until("clockwork", lambda said: str(worker.pid) not in runner(said))
    assert said["fine"] and not [one for one in said["failures"] if one["outcome"] == "lost"]


def rounds(said: dict) -> int:
    return next(task["round"] for task in said["tasks"] if task["task"] == "check_drains")


def number(operator: Operator) -> int:
    return rounds(operator.get("clockwork"))


def runner(said: dict) -> str:
    return next(task["ran_by"] for task in said["tasks"] if task["task"] == "check_drains")
