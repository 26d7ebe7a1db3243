"""Live truth: whatever is killed while a page is open, it says so, and ends as one that is opened now."""

from __future__ import annotations

import signal

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import (
    MARK,
    is_as_loaded_now,
    kept_down,
    living,
    pill_says,
    registers,
    said,
    was_never_reloaded,
)

REPLACED = "from controlplane.models import LedgerHead; LedgerHead.objects.update(ledger_id='another-ledger')"


@pytest.fixture
def look(site: Site) -> Look:
    opened = site.open("/")
    opened.live()
    opened.page.evaluate(MARK)
    return opened


def test_a_change_is_shown_without_a_reload(site, look):
    registers(site, "arrives")
    said(look, "arrives")
    was_never_reloaded(look)
    is_as_loaded_now(site, look)


def test_a_killed_web_process_makes_the_page_stale_and_then_it_catches_up(site, look):
    with kept_down(site, "manage.py web"):
        pill_says(look, "stale")
        pill = look.page.locator("#live")
        expect(pill).to_contain_text("reconnecting")
        expect(pill.get_by_role("button", name="Reconnect now")).to_be_visible()
        assert look.page.evaluate("document.body.classList.contains('stale')")
        registers(site, "while-web-was-away")
    pill_says(look, "live")
    said(look, "while-web-was-away")
    was_never_reloaded(look)
    is_as_loaded_now(site, look)


def test_a_frozen_web_process_is_noticed_too(site, look):
    web = site.up.child("manage.py web")
    web.send_signal(signal.SIGSTOP)
    try:
        pill_says(look, "stale", seconds=40)
    finally:
        web.send_signal(signal.SIGCONT)
    pill_says(look, "live")
    is_as_loaded_now(site, look)


def test_a_ledger_that_was_replaced_makes_the_page_anew(site, look):
    site.manage("shell", "-c", REPLACED)
    with look.page.expect_request(lambda request: "x-pdcp-parts" in request.headers, timeout=20_000):
        pass
    pill_says(look, "live")
    registers(site, "after-the-ledger")
    said(look, "after-the-ledger")
    was_never_reloaded(look)
    is_as_loaded_now(site, look)


def test_ranks_that_come_and_die_are_shown_as_they_are(site, look, tmp_path):
    with living(site, "mortal", tmp_path / "ranks", "--tp", "4"):
        said(look, "mortal")
        is_as_loaded_now(site, look)
    is_as_loaded_now(site, look)
