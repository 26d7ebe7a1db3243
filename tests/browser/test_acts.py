"""Dialogs and notices in a real browser: asked, looked at again, done, undone; by mouse, by keyboard, without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from .conftest import Site
from .look import Look
from .truth import living


@pytest.fixture(scope="module", autouse=True)
def fleet(running: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two prefill instances of two DP groups that answer, and one decode."""
    log = tmp_path_factory.mktemp("ranks") / "log"
    for name in ("prefill-a", "prefill-b"):
        running.manage("instances", "add", name, "--actor", "bob", "--reason", "the rack is there")
    running.manage("instances", "add", "decode-c", "--role", "decode", "--actor", "bob")
    size = ("--tp", "4", "--dp", "2")
    with living(running, "prefill-a", log, *size), living(running, "prefill-b", log, *size):
        yield


def ask(look: Look, act: str, *on: str) -> Locator:
    """Open the dialog from a button like those of the pages."""
    url = f"/act/{act}?{'&'.join(f'on={one}' for one in on)}"
    look.page.evaluate(
        """url => {
            const link = Object.assign(document.createElement('a'), { href: url, className: 'btn', textContent: 'Ask…' });
            link.dataset.act = '';
            document.getElementById('main').append(link);
        }""",
        url,
    )
    look.page.get_by_text("Ask…").last.click()
    dialog = look.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def toast(look: Look) -> Locator:
    return look.page.locator("#toasts .toast-p").last


def intent_of(site: Site, name: str) -> str:
    found = json.loads(site.manage("instances", "list", "--json"))["instances"]
    return str(next(one["intent"] for one in found if one["name"] == name))


@pytest.mark.parametrize(
    ("size", "theme"), [("wide", "light"), ("wide", "dark"), ("narrow", "light"), ("narrow", "dark")]
)
def test_dialogs_and_notices_are_accessible_in_every_size_and_colour(site: Site, size: str, theme: str):
    look = site.open("/rooms/", size=size, theme=theme)
    name = "act-drain" + ("-400" if size == "narrow" else "") + f"-{theme}"
    dialog = ask(look, "drain", "prefill-a:dp1")
    expect(dialog.get_by_label("why")).to_be_focused()
    dialog.get_by_label("why").fill("replace the NIC of 10.4.2.31")
    dialog.get_by_label("must stay").fill("1")
    dialog.get_by_label("why").focus()
    expect(dialog).to_contain_text("needed")
    look.check()
    look.shoot(name)
    dialog.get_by_role("button", name="Show as curl").click()
    expect(look.page.locator("[popover]:popover-open pre").first).to_contain_text('"min_ready": 1')
    look.check()
    look.page.keyboard.press("Escape")
    look.page.keyboard.press("Escape")
    expect(look.page.get_by_role("dialog")).to_have_count(0)
    for tone in ("ok", "bad"):
        look.page.evaluate(
            "tone => document.dispatchEvent(new CustomEvent('pdcp:toast', {detail: {tone, text: 'prefill-a was looked at.'}}))",
            tone,
        )
    expect(look.page.locator("#toasts .toast-p")).to_have_count(2)
    look.check()
    look.shoot(name.replace("drain", "notices"))


def test_what_is_done_is_said_and_can_be_undone(site: Site):
    look = site.open("/rooms/")
    dialog = ask(look, "cordon", "prefill-a")
    dialog.get_by_label("why").fill("try something")
    dialog.get_by_role("button", name="Cordon prefill-a").click()
    expect(look.page.get_by_role("dialog")).to_have_count(0)
    expect(toast(look)).to_contain_text("prefill-a is cordoned")
    assert intent_of(site, "prefill-a") == "cordoned"
    # Whoever works with the keyboard is where they were.
    expect(look.page.get_by_text("Ask…")).to_be_focused()
    toast(look).get_by_role("button", name="Undo").click()
    expect(toast(look)).to_contain_text("prefill-a is enabled again")
    assert intent_of(site, "prefill-a") == "enabled"


def test_what_would_remain_and_the_command_follow_the_answers(site: Site):
    look = site.open("/rooms/")
    dialog = ask(look, "drain", "prefill-b")
    dialog.get_by_label("why").fill("it's hot")
    dialog.get_by_label("must stay").fill("9")
    dialog.get_by_label("deadline").select_option("10")
    expect(dialog).to_contain_text("9 needed")
    # Nothing that was typed is lost by it.
    expect(dialog.get_by_label("why")).to_have_value("it's hot")
    expect(dialog.get_by_label("deadline")).to_have_value("10")
    dialog.get_by_role("button", name="Show as curl").click()
    shell = look.page.locator("[popover]:popover-open")
    look.shoot("act-curl-light")
    expect(shell).to_contain_text("--deadline 10m --min-ready 9")
    shell.get_by_role("button", name="Close").click()
    dialog.get_by_role("button", name="Drain prefill-b").click()
    expect(dialog.get_by_role("alert")).to_contain_text("9 are wanted")
    expect(dialog.get_by_label("why")).to_have_value("it's hot")
    assert intent_of(site, "prefill-b") == "enabled"


def test_whoever_is_second_sees_what_the_first_did(site: Site):
    look = site.open("/rooms/")
    dialog = ask(look, "cordon", "prefill-b")
    site.manage("cordon", "prefill-b", "--actor", "bob", "--reason", "he was faster")
    dialog.get_by_label("why").fill("me too")
    dialog.get_by_role("button", name="Cordon prefill-b").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Changed since you looked")
    expect(dialog.get_by_role("alert")).to_contain_text("→ cordoned by bob")
    look.check()
    look.shoot("act-stale-light")
    look.page.keyboard.press("Escape")
    dialog = ask(look, "uncordon", "prefill-b")
    dialog.get_by_label("why").fill("back")
    look.page.keyboard.press("Enter")
    expect(toast(look)).to_contain_text("prefill-b is enabled again")


def test_several_at_once_are_shown_and_the_name_of_what_ends_is_typed(site: Site):
    look = site.open("/rooms/")
    dialog = ask(look, "drain", "prefill-a", "prefill-b")
    expect(dialog.get_by_role("row")).to_have_count(3)
    expect(dialog).to_contain_text("Drain 2 targets?")
    look.check()
    look.shoot("act-bulk-light")
    look.page.keyboard.press("Escape")
    dialog = ask(look, "retire", "prefill-a")
    dialog.get_by_label("why").fill("the rack goes")
    dialog.get_by_label("type prefill-a").fill("prefill-b")
    dialog.get_by_role("button", name="Retire prefill-a").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Type prefill-a to confirm.")
    look.shoot("act-retire-light")
    assert intent_of(site, "prefill-a") == "enabled"


def test_a_dialog_is_left_by_escape_cancel_and_beside_it_but_not_with_answers_in_it(site: Site):
    look = site.open("/rooms/")
    for leave in ("Escape", "Cancel", "beside"):
        dialog = ask(look, "cordon", "prefill-a")
        if leave == "Escape":
            look.page.keyboard.press("Escape")
        elif leave == "Cancel":
            dialog.get_by_role("button", name="Cancel").click()
        else:
            look.page.mouse.click(20, 500)
        expect(look.page.get_by_role("dialog")).to_have_count(0)
    dialog = ask(look, "cordon", "prefill-a")
    dialog.get_by_label("why").type("x")
    look.page.mouse.click(20, 500)
    expect(dialog).to_be_visible()


def test_what_could_not_be_sent_is_said_and_stays_until_it_is_read(site: Site):
    look = site.open("/rooms/")
    dialog = ask(look, "cordon", "prefill-a")
    dialog.get_by_label("why").fill("x")
    look.page.context.set_offline(True)
    dialog.get_by_role("button", name="Cordon prefill-a").click()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
    # What was typed is still there to be sent.
    expect(dialog.get_by_label("why")).to_have_value("x")
    dialog.get_by_role("button", name="Close this notice").click()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_role("button", name="Cancel").click()
    look.page.get_by_text("Ask…").click()
    expect(toast(look)).to_contain_text("cannot be reached")
    expect(toast(look)).to_have_attribute("role", "alert")
    look.page.context.set_offline(False)
    toast(look).get_by_role("button", name="Close this notice").click()
    expect(look.page.locator("#toasts .toast-p")).to_have_count(0)


def test_an_instance_is_added_and_a_token_is_shown_once(site: Site):
    look = site.open("/rooms/", who="anna")
    dialog = ask(look, "add")
    dialog.get_by_label("name", exact=True).fill("prefill-z")
    dialog.get_by_label("own port").fill("9123")
    dialog.get_by_label("why").fill("a new rack")
    look.check()
    look.shoot("act-add-light")
    dialog.get_by_role("button", name="Add instance").click()
    expect(toast(look)).to_contain_text("prefill-z was added as prefill, reached by port 9123")
    dialog = ask(look, "make-token")
    dialog.get_by_label("name", exact=True).fill("ci")
    dialog.get_by_label("read:").check()
    dialog.get_by_label("why").fill("for CI")
    dialog.get_by_role("button", name="Make token").click()
    expect(dialog).to_contain_text("This is the only time that it is shown")
    look.check()
    # Not even a click beside it takes it away.
    look.page.mouse.click(20, 500)
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="I have kept it").click()
    expect(look.page.get_by_role("dialog")).to_have_count(0)


def test_without_scripts_the_same_is_a_page(site: Site):
    look = site.open("/act/cordon?on=prefill-a", java_script_enabled=False)
    page = look.page
    page.get_by_label("why").fill("by hand")
    page.get_by_role("button", name="Cordon prefill-a").click()
    expect(page.locator("main")).to_contain_text("prefill-a is cordoned")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("main")).to_contain_text("prefill-a is enabled again")
    assert intent_of(site, "prefill-a") == "enabled"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_dialog_is_accessible(site: Site, theme: str):
    for size in ("wide", "narrow"):
        site.open("/act/drain?on=prefill-a", size=size, theme=theme).check()


def test_whoever_may_only_look_is_told_so(site: Site):
    look = site.open("/rooms/", who="vera")
    dialog = ask(look, "cordon", "prefill-a")
    expect(dialog).to_contain_text("This needs the role operator.")
    dialog.get_by_role("button", name="Close").click()
    expect(look.page.get_by_role("dialog")).to_have_count(0)
