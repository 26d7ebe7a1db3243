"""The overview in a browser: what it says at a glance, narrowing, selecting, and the empty fleet that fills by itself."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.support.processes import Child, freeze

LOOKS = [(size, theme) for size in ("wide", "narrow") for theme in ("light", "dark")]


def name_of(page: str, size: str, theme: str) -> str:
    return f"{page}-400-{theme}" if size == "narrow" else f"{page}-{theme}"


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_1_an_empty_fleet_teaches_and_can_be_read_by_everybody(site: Site, size, theme):
    look = site.open("/", size=size, theme=theme)
    look.live()
    expect(look.page.get_by_role("heading", name="No instance has registered yet")).to_be_visible()
    expect(look.page.locator("#c1")).to_contain_text(f":{site.up.ports['PDCP_KV_PORT']}/i/try-1/route")
    look.check()
    look.shoot(name_of("empty", size, theme))


def test_2_the_page_fills_by_itself_when_the_first_rank_arrives(site: Site):
    look = site.open("/")
    look.live()
    taught = look.page.locator("#c1").inner_text()
    done = subprocess.run(["bash", "-c", taught], capture_output=True, text=True, timeout=60)
    assert done.stdout == "OK", done
    # It leaves again, for nobody listens there; that it was there is told.
    expect(look.page.locator('[data-key="try-1"]')).to_be_visible()
    expect(look.page.get_by_role("heading", name="Needs attention")).to_be_visible()
    site.manage("retire", "try-1", "--reason", "it was a try")


class Ranks:
    """Ranks that listen and register, in processes of their own, until the file is through."""

    def __init__(self, site: Site, log: Path) -> None:
        self.site, self._log, self._children = site, log, []

    def start(self, instance: str, *options: str) -> Child:
        ports = self.site.up.ports
        where = [
            *("--instance", instance),
            *("--url", f"http://127.0.0.1:{ports['PDCP_KV_PORT']}"),
            *("--engine-url", f"http://127.0.0.1:{ports['PDCP_ENGINE_INFO_PORT']}"),
        ]
        argv = [sys.executable, "manage.py", "simulate", *where, "--json", "--wait", "1", *options]
        self._children.append(Child(argv, env=self.site.up.env, log=self._log))
        return self._children[-1]

    def close(self) -> None:
        for child in self._children:
            child.kill9()


SIZE = ("--dp", "2", "--tp", "8", "--pp", "2")
LOST = [f"dp1,tp{tp},pp1" for tp in range(4, 8)]


def until_observed(page: Page, words: dict[str, str]) -> None:
    end = time.monotonic() + 90
    while True:
        items = page.request.get("/instances.json").json()["items"]
        seen = {item["name"]: item["observed"] for item in items if item["name"] in words}
        if seen == words:
            return
        assert time.monotonic() < end, seen
        time.sleep(0.5)


@pytest.fixture(scope="module")
def fleet(running: Site, tmp_path_factory) -> Iterator[Ranks]:
    """As on a bad night: one instance lost a host, one drains and waits for a silent gateway, a decode fits nobody."""
    for name in ("decode-a", "decode-b", "decode-c", "decode-d"):
        running.manage("instances", "add", name, "--role", "decode")
    ranks = Ranks(running, tmp_path_factory.mktemp("ranks") / "log")
    ranks.start("prefill-a", *SIZE, "--token", "one", *(word for slot in LOST for word in ("--skip", slot)))
    lost = ranks.start("prefill-a", *SIZE, "--token", "one", *(word for slot in LOST for word in ("--only", slot)))
    ranks.start("prefill-b", "--dp", "4", "--tp", "8")
    ranks.start("prefill-c", "--tp", "4")
    ranks.start("decode-a", "--dp", "4", "--tp", "4")
    ranks.start("decode-b", "--tp", "8", "--page-size", "32")
    ranks.start("decode-d", "--tp", "4", "--skip", "tp3")
    hangs = ranks.start("decode-d", "--tp", "4", "--only", "tp3")
    page = running.open("/").page
    names = ("prefill-a", "prefill-b", "prefill-c", "decode-a", "decode-b", "decode-d")
    until_observed(page, dict.fromkeys(names, "up"))
    key = running.manage("tokens", "make", "gw-1", "--may", "gateway").strip().splitlines()[-1]
    joined = requests.post(
        f"{running.url}/api/v1/gateways",
        json={"name": "gw-1", "lease_seconds": 5},
        headers={"Authorization": f"Bearer {key}"},
        timeout=10,
    )
    assert joined.ok, joined.text
    running.manage("drain", "prefill-b", "--dp", "1", "--reason", "new driver")
    running.manage("cordon", "decode-c", "--reason", "not yet")
    ranks.start("prefill-a", *SIZE, "--token", "two", "--only", "dp0,pp0,tp0", "--only", "dp0,pp0,tp1")
    lost.kill9()
    freeze(hangs.pid)
    until_observed(page, {"prefill-a": "down", "decode-d": "degraded"})
    expect(page.locator("#part-attention")).to_contain_text("Gateway gw-1", timeout=60_000)
    running.close_pages()
    yield ranks
    ranks.close()


def test_3_one_row_an_instance_and_what_needs_a_person_first(site: Site, fleet):
    look = site.open("/")
    look.live()
    names = [row.get_attribute("data-key") for row in look.page.locator("[data-key]").all()]
    assert names == sorted(names) and names[0] == "decode-a" and len(names) == 7
    first = look.part("attention").locator(".att > li").first
    expect(first).to_contain_text("prefill-a takes no requests: 4 of its 32 ranks are gone")
    expect(first).to_contain_text("127.0.0.1")
    attention = look.part("attention")
    expect(attention).to_contain_text("Drain of dp1 of prefill-b")
    expect(attention).to_contain_text("decode-b cannot pair")
    expect(look.page.locator('[data-key="prefill-b"]')).to_contain_text("draining dp1")
    expect(look.page.locator('[data-key="prefill-b"]').get_by_role("link", name="Open drain")).to_be_visible()
    expect(look.page.locator('[data-key="decode-c"]').get_by_role("link", name="Uncordon")).to_be_visible()


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_4_it_can_be_read_by_everybody(site: Site, fleet, size, theme):
    look = site.open("/", size=size, theme=theme)
    look.live()
    look.check()
    look.shoot(name_of("overview", size, theme))


def test_5_what_is_typed_narrows_the_list_and_stands_in_the_address(site: Site, fleet):
    look = site.open("/")
    look.live()
    field = look.page.get_by_role("searchbox", name="Filter instances")
    look.page.keyboard.press("/")
    expect(field).to_be_focused()
    field.press_sequentially("state:cord")
    expect(look.page.locator("[data-key]")).to_have_count(1)
    expect(look.page).to_have_url(re.compile(r"\?q=state%3Acord$"))
    expect(field).to_have_value("state:cord")
    expect(field).to_be_focused()
    field.fill("nothing-like-it")
    expect(look.page.get_by_text("No instance matches")).to_be_visible()
    look.check()
    look.page.get_by_role("link", name="Show all 7").click()
    expect(look.page.locator("[data-key]")).to_have_count(7)
    expect(field).to_have_value("")
    look.page.locator("a.chip", has_text="prefill").click()
    expect(field).to_have_value("role:prefill")
    expect(look.page.locator("[data-key]")).to_have_count(3)
    look.page.go_back()
    expect(look.page.locator("[data-key]")).to_have_count(7)
    expect(field).to_have_value("")


def test_6_the_filter_works_without_scripts(site: Site, fleet):
    look = site.open("/", java_script_enabled=False)
    field = look.page.get_by_role("searchbox", name="Filter instances")
    field.fill("state:draining")
    field.press("Enter")
    assert look.page.locator("[data-key]").count() == 1
    look.page.get_by_role("link", name="Instance", exact=True).click()
    assert "sort=-name" in look.page.url and "state%3Adraining" in look.page.url


def test_7_what_is_selected_stays_selected_and_is_what_the_dialog_asks_about(site: Site, fleet):
    look = site.open("/")
    look.live()
    look.page.get_by_label("Select decode-c").check()
    look.page.get_by_label("Select prefill-a").check()
    expect(look.page.locator("[data-select-count]")).to_have_text("2 selected")
    # Something changes elsewhere: the rows are drawn anew, the selection stands.
    site.manage("uncordon", "decode-c", "--reason", "done")
    expect(look.page.locator('[data-key="decode-c"]')).to_contain_text("enabled")
    expect(look.page.locator("[data-select-count]")).to_have_text("2 selected")
    expect(look.page.get_by_label("Select decode-c")).to_be_checked()
    look.page.get_by_role("link", name="Cordon…", exact=True).click()
    dialog = look.page.locator("dialog[open]")
    expect(dialog).to_contain_text("decode-c")
    expect(dialog).to_contain_text("prefill-a")
    look.page.keyboard.press("Escape")
    look.page.get_by_label("Select all 7 shown").check()
    expect(look.page.locator("[data-select-count]")).to_have_text("7 selected")
    look.shoot("overview-selected")


def test_8_a_viewer_finds_nothing_to_select_and_no_way_to_act(site: Site, fleet):
    look = site.open("/", who="vera")
    look.live()
    expect(look.page.locator("[data-select], [data-bulk], a[data-act]")).to_have_count(0)
    look.check()


def test_9_new_rows_wait_until_they_are_asked_for(site: Site, fleet):
    look = site.open("/")
    look.live()
    site.manage("instances", "add", "decode-e", "--role", "decode")
    chip = look.page.locator("[data-new-chip] button")
    expect(chip).to_have_text("1 new")
    expect(look.page.locator('[data-key="decode-e"]')).to_have_count(0)
    chip.click()
    expect(look.page.locator('[data-key="decode-e"]')).to_have_count(1)


def test_10_the_longest_names_and_reasons_make_no_page_wider_and_a_long_reason_no_list_longer(site: Site):
    name = "x" * 100
    site.manage("instances", "add", name, "--role", "decode")
    site.manage("drain", name, "--reason", f"{'W' * 200} {'a story ' * 200}".strip())
    for size in ("narrow", "wide"):
        look = site.open("/drains/", size=size)
        drain = look.page.locator('[data-key] a[href^="/drains/"]').first.get_attribute("href")
        for path in ("/drains/", drain, "/", f"/instances/{name}/", "/events/"):
            look.go(path)
            wider = look.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wider <= 0, (size, path, wider)
        look.go("/")
        told = look.page.locator(".att > li", has_text=f"Drain of {name}")
        expect(told).to_be_visible()
        tall = told.bounding_box()
        assert tall is not None and tall["height"] < 300, tall
