"""Whoever is signed out, or may not look any more, is told so by the page that they have open."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.truth import HIDE, MARK, pill_says, registers, said, was_never_reloaded
from tests.support.people import session_keys

NO_ROLE = "from django.contrib.auth.models import User; User.objects.get(username='walt').groups.clear()"


def test_whoever_signs_out_elsewhere_is_told_and_signs_in_again(site):
    site.keys |= session_keys(site.up.env, {"wanda": "viewer"})
    look = site.open("/", who="wanda")
    look.live()
    look.page.evaluate(MARK)
    other = look.page.context.new_page()
    other.goto("/")
    other.locator("summary.who").click()
    other.get_by_role("button", name="Sign out").click()
    pill_says(look, "signed-out")
    pill = look.page.locator("#live")
    expect(pill.get_by_role("button", name="Sign in again")).to_be_visible()
    # Signed in again in the other tab: looked at again, the page goes on where it stood.
    key = session_keys(site.up.env, {"wanda": "viewer"})["wanda"]
    look.page.context.add_cookies([{"name": "sessionid", "value": key, "url": site.url}])
    registers(site, "while-signed-out")
    look.page.evaluate(HIDE, False)
    said(look, "while-signed-out")
    pill_says(look, "live")
    was_never_reloaded(look)


def test_the_button_of_who_is_signed_out_leads_back_here(site):
    site.keys |= session_keys(site.up.env, {"wim": "viewer"})
    look = site.open("/events/", who="wim")
    look.live()
    look.page.context.clear_cookies()
    look.page.evaluate("document.dispatchEvent(new CustomEvent('pdcp:refresh'))")
    pill_says(look, "signed-out")
    look.page.get_by_role("button", name="Sign in again").click()
    look.page.wait_for_url("**/sign-in/?next=%2Fevents%2F")


def test_whoever_loses_their_role_is_told_so(site):
    site.keys |= session_keys(site.up.env, {"walt": "viewer"})
    look = site.open("/", who="walt")
    look.live()
    site.manage("shell", "-c", NO_ROLE)
    expect(look.page.locator("#main")).to_contain_text("none of the groups", timeout=40_000)
