"""Events in a browser: found, chosen, compared, held back while they come; the fleet as it was."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site

THEMES = [("wide", "light"), ("wide", "dark"), ("narrow", "light"), ("narrow", "dark")]


@pytest.fixture(scope="module", autouse=True)
def story(running: Site) -> None:
    running.simulate("prefill-a", "--tp", "8", "--dp", "2")
    running.simulate("prefill-b", "--tp", "4")
    running.simulate("decode-c", "--tp", "4")
    running.manage("cordon", "prefill-b", "--reason", "replace NIC on 10.4.2.31 (OPS-4127)", "--actor", "ops-1")
    running.manage("drain", "prefill-b", "--reason", "replace NIC (OPS-4127)", "--actor", "ops-1", "--deadline", "10m")


def chosen(site: Site) -> str:
    """The revision of the cordon."""
    found = re.search(r"(\d+).*prefill-b.*is cordoned", site.manage("events", "--limit", "200"))
    assert found is not None
    return found[1]


def full(site: Site) -> str:
    """The revision at which prefill-a was complete."""
    found = re.search(r"(\d+).*prefill-a.*is complete", site.manage("events", "--limit", "200"))
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("size", "theme"), THEMES)
def test_every_page_of_it_is_accessible_and_fits(site, size, theme):
    revision = chosen(site)
    name = f"events-{'400-' if size == 'narrow' else ''}{theme}"
    look = site.open(f"/events/?event={revision}", size=size, theme=theme)
    look.live()
    expect(look.part("one")).to_contain_text("Before and after")
    look.check()
    look.shoot(name)
    # When everybody was there: these ranks do not live on.
    look.go(f"/events/fleet/?as_of={full(site)}")
    look.live("as-of")
    look.check()
    look.shoot(name.replace("events", "events-fleet"))
    look.go(f"/events/fleet/?as_of={int(revision) - 1}&with=now")
    look.check()


def test_choosing_an_event_changes_the_address_and_nothing_else(site):
    revision = chosen(site)
    look = site.open("/events/?q=instance:prefill-b")
    look.live()
    look.page.evaluate("window.opened = true")
    row = look.page.locator(f"#e{revision}")
    row.get_by_role("link", name=revision).click()
    expect(look.part("one")).to_contain_text("replace NIC on 10.4.2.31")
    expect(row).to_have_class("sel")
    assert f"event={revision}" in look.page.url and "q=instance" in look.page.url
    look.page.keyboard.press("Escape")
    expect(look.part("one").locator("aside")).to_have_count(0)
    look.page.go_back()
    expect(look.part("one")).to_contain_text("replace NIC on 10.4.2.31")
    assert look.page.evaluate("window.opened"), "the page was loaded anew"


def test_new_events_wait_behind_a_chip_until_they_are_asked_for(site):
    look = site.open("/events/?q=instance:decode-c")
    look.live()
    before = look.part("events").locator("tr[data-key]").count()
    site.manage("cordon", "decode-c", "--reason", "waits", "--actor", "ops-2")
    chip = look.part("events").get_by_role("button", name="1 new")
    expect(chip).to_be_visible()
    assert look.part("events").locator("tr[data-key]").count() == before
    chip.click()
    expect(look.part("events")).to_contain_text("waits")
    expect(chip).to_have_count(0)
    site.manage("uncordon", "decode-c", "--reason", "done", "--actor", "ops-2")


def test_a_run_is_opened_with_the_keyboard_and_stays_open_when_the_page_is_refreshed(site):
    look = site.open("/events/?q=instance:prefill-a")
    look.live()
    fold = look.page.get_by_role("checkbox", name=re.compile("more rank.registered")).first
    hidden = look.page.locator("tbody", has=fold).locator("tr.in").first
    expect(hidden).to_be_hidden()
    fold.focus()
    look.page.keyboard.press("Space")
    expect(hidden).to_be_visible()
    with look.page.expect_response(lambda answer: "x-pdcp-parts" in answer.request.headers):
        look.page.evaluate("document.dispatchEvent(new CustomEvent('pdcp:refresh'))")
    expect(hidden).to_be_visible()


def test_choosing_from_a_list_narrows_without_a_button(site):
    look = site.open("/events/")
    look.page.get_by_label("Kind").select_option("intent")
    look.page.wait_for_url("**/events/?*kind=intent*")
    expect(look.part("events")).not_to_contain_text("rank.registered")
    look.page.get_by_label("Find events").fill("OPS-4127")
    look.page.keyboard.press("Enter")
    look.page.wait_for_url("**q=OPS-4127*")
    expect(look.part("events")).to_contain_text("replace NIC on 10.4.2.31")


def test_the_pill_of_the_past_leads_back_to_now(site):
    revision = chosen(site)
    look = site.open(f"/events/fleet/?as_of={revision}")
    look.live("as-of")
    expect(look.page.locator("#live")).to_contain_text(revision)
    look.page.get_by_role("button", name="Back to live").click()
    look.page.wait_for_url(f"**/events/{revision}/")
    look.live()


def test_files_are_taken_away(site):
    look = site.open("/events/?kind=intent")
    with look.page.expect_download() as waiting:
        look.page.get_by_role("link", name="CSV").click()
    name = waiting.value.suggested_filename
    assert name.startswith("events-") and name.endswith(".csv")
