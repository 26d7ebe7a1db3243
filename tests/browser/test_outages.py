"""Live truth of all pages: whichever of our processes is killed, each of them ends as one that is opened now."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import (
    MARK,
    close,
    is_as_loaded_now,
    kept_down,
    living,
    pill_says,
    registers,
    said,
    was_never_reloaded,
)

PAGES = ("/", "/instances/survivor/", "/instances/survivor/?tab=launches", "/events/", "/drains/", "/gateways/", "/rooms/",
         "/pairs/", "/weights/")  # fmt: skip


@pytest.fixture
def look(site: Site) -> Look:
    opened = site.open("/")
    opened.live()
    opened.page.evaluate(MARK)
    return opened


def test_without_redis_the_page_stays_live(site, look):
    with kept_down(site, "-server"):
        registers(site, "while-redis-was-away")
        said(look, "while-redis-was-away")
        pill_says(look, "live")
    pill_says(look, "live")
    was_never_reloaded(look)
    is_as_loaded_now(site, look)


def test_without_a_bootstrap_process_the_page_is_live_and_says_who_is_missing(site, look):
    missing = look.part("frame").get_by_text("not heard from")
    with kept_down(site, "manage.py bootstrap"):
        expect(missing.first).to_be_attached(timeout=40_000)
        pill_says(look, "live")
    expect(look.part("frame").locator("li", has_text="bootstrap")).to_contain_text("at work", timeout=40_000)
    registers(site, "after-bootstrap-came-back")
    said(look, "after-bootstrap-came-back")
    was_never_reloaded(look)
    is_as_loaded_now(site, look)


@pytest.mark.timeout(300)
def test_every_page_ends_as_one_opened_now_after_everything_was_killed(site, tmp_path):
    with living(site, "survivor", tmp_path / "ranks", "--dp", "2", "--tp", "2"):
        looks = [site.open(path) for path in PAGES]
        for look in looks:
            look.live()
            look.page.evaluate(MARK)
        with kept_down(site, "manage.py web"):
            for look in looks:
                pill_says(look, "stale")
        with kept_down(site, "-server"), kept_down(site, "manage.py bootstrap"):
            pass
    for look in looks:
        pill_says(look, "live")
        was_never_reloaded(look)
        is_as_loaded_now(site, look)
        close(site, look)
