"""The page of one instance in a real browser: how it looks, the grid by keyboard, and cells that change by themselves."""

import re
import sys
import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.look import SIZES as VIEWPORTS
from tests.browser.look import Look
from tests.support.processes import Child, freeze

NAME = "prefill-a"
PAGE = f"/instances/{NAME}/"
SIZES = [(size, theme) for size in ("wide", "narrow") for theme in ("light", "dark")]
TABS = ("why", "launches", "rooms", "engine-info", "pairs", "events")
SIZE = ("--dp", "2", "--tp", "8", "--pp", "2", "--load-balance-method", "follow_bootstrap_room")
LATE = "dp1,tp3,pp0"
LOST = [f"dp1,tp{tp},pp1" for tp in range(4, 8)]


class Ranks:
    """Ranks that listen and register, in processes of their own, until the file is through."""

    def __init__(self, site: Site, log) -> None:
        self.site, self._log, self._children = site, log, []

    def start(self, instance: str, *options: str) -> Child:
        ports = self.site.up.ports
        where = [
            *("--instance", instance),
            *("--url", f"http://127.0.0.1:{ports['PDCP_KV_PORT']}"),
            *("--engine-url", f"http://127.0.0.1:{ports['PDCP_ENGINE_INFO_PORT']}"),
        ]
        argv = [sys.executable, "manage.py", "simulate", *where, "--json", "--wait", "1", *options]
        child = Child(argv, env=self.site.up.env, log=self._log)
        self._children.append(child)
        return child

    def until(self, instance: str, words: str) -> None:
        """Wait until its page says so."""
        url, key = f"{self.site.url}/instances/{instance}/", self.site.keys["olga"]
        end = time.monotonic() + 60
        while True:
            said = httpx.get(url, headers={"X-PDCP-Parts": "head"}, cookies={"sessionid": key}, timeout=30).text
            if words in said:
                return
            assert time.monotonic() < end, said
            time.sleep(0.2)

    def close(self) -> None:
        for child in self._children:
            child.kill9()


@pytest.fixture(scope="module", autouse=True)
def fleet(running, tmp_path_factory) -> Iterator[Ranks]:
    """As in an incident: four ranks of a launch are down and one is frozen, another launch fills, a DP group is cordoned."""
    ranks = Ranks(running, tmp_path_factory.mktemp("ranks") / "log")
    running.manage("instances", "add", "decode-a", "--role", "decode")
    skipped = [word for slot in (LATE, *LOST) for word in ("--skip", slot)]
    ranks.start(NAME, *SIZE, *skipped, "--token", "one", "--weights", "3")
    late = ranks.start(NAME, *SIZE, "--only", LATE, "--token", "one")
    lost = ranks.start(NAME, *SIZE, *(word for slot in LOST for word in ("--only", slot)), "--token", "one")
    ranks.start("prefill-big", "--dp", "9", "--tp", "64")
    ranks.until(NAME, "is serving")
    ranks.start(
        NAME,
        *SIZE,
        "--only",
        "dp0,pp0",
        "--only",
        "dp0,tp0",
        "--only",
        "dp0,tp1",
        "--only",
        "dp0,tp2",
        "--token",
        "two",
    )
    ranks.until(NAME, "Launch 2 is coming up: 11/32")
    ranks.until("prefill-big", "is serving")
    freeze(late.pid)
    lost.kill9()
    ranks.until(NAME, "28/32")
    ranks.until(NAME, "does not greet")
    running.manage("cordon", NAME, "--dp", "1", "--reason", "replace the NIC of its host")
    yield ranks
    ranks.close()


@pytest.mark.parametrize(("size", "theme"), SIZES)
def test_it_is_accessible_and_fits(site, size, theme):
    look = site.open(f"{PAGE}?rank=dp1.cp0.tp3.pp0", size=size, theme=theme)
    look.live()
    expect(look.page.locator("[data-pane]")).to_be_visible()
    look.check()
    if size == "wide" or theme == "light":
        look.shoot(f"instance-{'' if size == 'wide' else '400-'}{theme}")


def looks(site: Site, path: str, kinds=SIZES) -> Iterator[tuple[Look, str, str]]:
    """The same open page in windows of each size, and in each theme."""
    look = site.open(path)
    for size, theme in kinds:
        look.page.set_viewport_size(VIEWPORTS[size])
        look.page.emulate_media(color_scheme=theme)
        yield look, size, theme


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_is_accessible_and_fits(site, tab):
    for look, size, theme in looks(site, f"{PAGE}?tab={tab}"):
        expect(look.page.locator(f"#part-{tab} h2").first).to_be_visible()
        look.check()
        if size == "wide" and (theme == "light" or tab == "why"):
            look.shoot(f"instance-{tab}-{theme}")


def test_the_table_says_the_same_and_leads_to_the_rank(site):
    for look, _, _ in looks(site, f"{PAGE}?view=table"):
        expect(look.page.locator("[data-rank]").first).to_be_visible()
        look.check()
    look = site.open(f"{PAGE}?view=table")
    look.page.locator("[data-rank='dp1.cp0.tp0.pp1']").click()
    expect(look.page.locator("[data-pane='dp1.cp0.tp0.pp1']")).to_be_visible()
    assert "rank=dp1.cp0.tp0.pp1" in look.page.url and "view=table" in look.page.url
    look.shoot("instance-table-light")


def test_hundreds_of_ranks_are_small_cells_of_which_each_has_a_shape(site):
    for look, size, _ in looks(site, "/instances/prefill-big/", [("wide", "light"), ("narrow", "dark")]):
        expect(look.page.locator(".rg.micro [role=gridcell]")).to_have_count(576)
        look.check()
        if size == "wide":
            look.shoot("instance-micro-light")


def test_the_grid_is_walked_with_arrows_and_opened_with_enter(site):
    look = site.open(PAGE)
    page = look.page
    look.live()
    grid = page.locator("[role=grid][data-launch='1']")
    stop = grid.locator("[role=gridcell][tabindex='0']")
    stop.focus()

    def at(slot: str) -> None:
        expect(page.locator("[role=gridcell]:focus")).to_have_attribute("data-s", slot)
        expect(stop).to_have_count(1)

    at("0.0.0.0")
    for key, slot in (
        ("ArrowRight", "0.0.1.0"),
        ("ArrowDown", "1.0.1.0"),
        ("ArrowDown", "1.0.1.0"),
        ("End", "1.0.7.1"),
        ("Home", "1.0.0.0"),
        ("ArrowLeft", "1.0.0.0"),
        ("Control+End", "1.0.7.1"),
        ("Control+Home", "0.0.0.0"),
        ("PageDown", "1.0.0.0"),
    ):
        page.keyboard.press(key)
        at(slot)
    page.keyboard.press("Enter")
    expect(page.locator("[data-pane='dp1.cp0.tp0.pp0']")).to_be_visible()
    expect(page.locator("[role=gridcell][aria-selected=true]")).to_have_attribute("data-s", "1.0.0.0")
    at("1.0.0.0")
    expect(page.locator("#said")).to_contain_text("dp1 tp0 pp0: cordoned")
    page.keyboard.press("Escape")
    expect(page.locator("[data-pane]")).to_have_count(0)
    at("1.0.0.0")
    assert "rank=" not in page.url


def test_back_and_forward_lead_through_ranks_and_layouts(site):
    look = site.open(PAGE)
    page = look.page
    grid = page.locator("[role=grid][data-launch='1']")
    grid.locator("[data-s='0.0.2.0']").click()
    expect(page.locator("[data-pane='dp0.cp0.tp2.pp0']")).to_be_visible()
    page.get_by_label("rows").select_option("pp.tp")
    expect(grid.locator("[role=rowheader]").first).to_have_text("pp0 tp0")
    expect(grid.locator("[role=rowheader]")).to_have_count(16)
    page.go_back()
    expect(grid.locator("[role=rowheader]")).to_have_count(2)
    expect(page.get_by_label("rows")).to_have_value("dp.cp")
    page.go_back()
    expect(page.locator("[data-pane]")).to_have_count(0)
    page.go_forward()
    expect(page.locator("[data-pane='dp0.cp0.tp2.pp0']")).to_be_visible()


def test_cells_follow_events_and_the_grid_is_not_drawn_anew(site):
    look = site.open(PAGE)
    page = look.page
    look.live()
    cell = page.locator("[data-launch='1'] [data-s='0.0.5.1']")
    cell.evaluate("node => { node.mine = true; }")
    cell.focus()
    site.manage("cordon", NAME, "--dp", "0", "--reason", "a look")
    expect(cell).to_have_attribute("aria-label", re.compile("cordoned"))
    expect(cell).to_have_class(re.compile("t-want"))
    assert cell.evaluate("node => node.mine && document.activeElement === node"), "the very same cell, still in focus"
    expect(page.locator("#part-head")).to_contain_text("DP group 0 has been cordoned")
    site.manage("uncordon", NAME, "--dp", "0")
    expect(cell).not_to_have_attribute("aria-label", re.compile("cordoned"))
    assert cell.evaluate("node => node.mine === true")


def test_a_launch_that_begins_gets_a_grid_and_counts_up(site, fleet):
    site.manage("instances", "add", "prefill-new", "--role", "prefill")
    look = site.open("/instances/prefill-new/")
    look.live()
    part = look.page.locator("#part-ranks")
    expect(part).to_contain_text("No rank is registered.")
    fleet.start("prefill-new", "--tp", "4", "--skip", "dp0,tp3")
    expect(look.page.locator("[role=gridcell]")).to_have_count(4)
    expect(part).to_contain_text("3 of 4 registered")
    expect(part).to_contain_text("Missing 1: dp0 tp3.")
    expect(look.page.locator("[data-s='0.0.3.0']")).to_have_attribute("aria-label", "dp0 tp3: missing")
    fleet.start("prefill-new", "--tp", "4", "--only", "dp0,tp3")
    expect(part).to_contain_text("4 of 4 routable")
    expect(look.page.locator("[aria-label$=': routable']")).to_have_count(4)
