"""The palette, the keys, signing in, and the Tokens page, in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site

THEMES = [("wide", "light"), ("wide", "dark"), ("narrow", "light"), ("narrow", "dark")]


@pytest.fixture(scope="module", autouse=True)
def story(running: Site) -> None:
    running.simulate("prefill-a", "--tp", "4")
    running.simulate("prefill-b", "--tp", "4")
    running.manage("cordon", "prefill-b", "--reason", "NIC", "--actor", "ops-1")
    running.manage(
        "tokens", "make", "prefill-a-workers", "--may", "register", "--may", "engine-info", "--instance", "prefill-a"
    )
    running.manage("tokens", "make", "gateway-1", "--may", "gateway", "--may", "read", "--expires", "never")


@pytest.mark.parametrize(("size", "theme"), THEMES)
def test_the_palette_and_the_keys_are_accessible_and_fit(site, size, theme):
    look = site.open("/events/", size=size, theme=theme)
    look.live()
    look.page.keyboard.press("Control+k")
    field = look.page.get_by_role("combobox", name="Instance, room")
    expect(field).to_be_focused()
    field.fill("prefill-b")
    expect(look.page.get_by_role("option", name="Drain prefill-b")).to_be_visible()
    look.check()
    look.shoot(f"palette-{'400-' if size == 'narrow' else ''}{theme}")
    look.page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    look.page.keyboard.press("?")
    expect(look.page.get_by_role("dialog", name="Keys")).to_be_visible()
    look.check()
    if size == "wide":
        look.shoot(f"keys-{theme}")


@pytest.mark.parametrize(("size", "theme"), THEMES)
def test_tokens_are_accessible_and_fit(site, size, theme):
    look = site.open("/tokens/", who="anna", size=size, theme=theme)
    look.live()
    expect(look.part("tokens")).to_contain_text("prefill-a-workers")
    look.check()
    look.shoot(f"tokens-{'400-' if size == 'narrow' else ''}{theme}")
    look = site.open("/tokens/", who="vera", size=size, theme=theme)
    look.check()


@pytest.mark.parametrize(("size", "theme"), THEMES)
def test_signing_in_is_accessible_and_says_what_was_wrong(site, size, theme):
    look = site.open("/sign-in/?next=/events/", who="", size=size, theme=theme)
    look.check()
    look.shoot(f"sign-in-{'400-' if size == 'narrow' else ''}{theme}")
    if (size, theme) == ("wide", "light"):
        look.page.get_by_label("Name").fill("olga")
        look.page.get_by_label("Password").fill("wrong")
        look.page.get_by_role("button", name="Sign in").click()
        expect(look.page.get_by_role("alert")).to_contain_text("do not belong together")
        look.check()


def test_a_few_letters_and_enter_lead_to_an_instance(site):
    look = site.open("/events/")
    look.page.get_by_role("button", name="Instance, room").click()
    field = look.page.get_by_role("combobox", name="Instance, room")
    field.fill("prefill-a")
    expect(look.page.get_by_role("option", name="prefill-a prefill instance")).to_have_attribute(
        "aria-selected", "true"
    )
    look.page.keyboard.press("Enter")
    look.page.wait_for_url("**/instances/prefill-a/")


def test_arrows_choose_and_the_field_says_which(site):
    look = site.open("/events/")
    look.page.keyboard.press("Control+k")
    field = look.page.get_by_role("combobox", name="Instance, room")
    with look.page.expect_response("**/palette/?q=prefill"):
        field.fill("prefill")
    expect(look.page.get_by_role("option", name="Events that say")).to_be_visible()
    look.page.keyboard.press("ArrowDown")
    active = field.get_attribute("aria-activedescendant")
    expect(look.page.locator(f"#{active}")).to_have_attribute("aria-selected", "true")
    found = look.page.get_by_role("listbox", name="What fits").get_by_role("option")
    assert found.and_(look.page.get_by_role("option", selected=True)).count() == 1
    look.page.keyboard.press("ArrowUp")
    look.page.keyboard.press("ArrowUp")
    expect(found.last).to_have_attribute("aria-selected", "true")


def test_an_action_of_the_palette_asks_first(site):
    look = site.open("/events/")
    look.page.keyboard.press("Control+k")
    look.page.get_by_role("combobox", name="Instance, room").fill("uncordon prefill-b")
    look.page.get_by_role("option", name="Uncordon prefill-b").click()
    expect(look.page.get_by_role("dialog")).to_contain_text("prefill-b")
    assert look.page.url.endswith("/events/")


def test_the_palette_switches_what_the_page_does_by_itself(site):
    look = site.open("/events/")
    look.live()
    look.page.keyboard.press("Control+k")
    look.page.get_by_role("combobox", name="Instance, room").fill("pause")
    look.page.get_by_role("option", name="Pause or go on").click()
    look.live("paused")
    look.page.keyboard.press("p")
    look.live()


def test_keys_go_to_pages_rows_and_the_filter_but_not_while_somebody_types(site):
    look = site.open("/tokens/", who="anna")
    look.live()
    look.page.keyboard.press("g")
    look.page.keyboard.press("e")
    look.page.wait_for_url("**/events/")
    look.live()
    look.page.keyboard.press("j")
    look.page.keyboard.press("j")
    first, second = (look.page.locator("main tbody > tr:visible").nth(place) for place in (0, 1))
    expect(second.get_by_role("link").first).to_be_focused()
    look.page.keyboard.press("k")
    expect(first.get_by_role("link").first).to_be_focused()
    look.page.keyboard.press("/")
    field = look.page.get_by_label("Find events")
    expect(field).to_be_focused()
    look.page.keyboard.type("gp?")
    expect(field).to_have_value("gp?")
    look.live()
    look.page.keyboard.press("Escape")
    expect(field).not_to_be_focused()


def test_single_keys_can_be_switched_off_for_good(site):
    look = site.open("/events/")
    look.live()
    look.page.keyboard.press("?")
    look.page.get_by_role("checkbox", name="single keys").uncheck()
    look.page.get_by_role("button", name="Close").click()
    look.page.keyboard.press("p")
    look.page.reload()
    look.live()
    look.page.keyboard.press("p")
    look.live()
    look.page.keyboard.press("Control+k")
    expect(look.page.get_by_role("combobox", name="Instance, room")).to_be_focused()
