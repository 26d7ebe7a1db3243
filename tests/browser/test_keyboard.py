"""Without a mouse, and without eyes: one complete drain by keys alone, and what a screen reader hears of the grid."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import living
from tests.doubles.engine import Engine
from tests.doubles.gateway import Gateway
from tests.support.operator import Operator, make_token

NAME = "by-keys"
PATIENCE = 40_000


@pytest.fixture(scope="module")
def ranks(running: Site, tmp_path_factory):
    """Two DP groups of two ranks, an engine that speaks for them, and a gateway."""
    engine = Engine("prefill", dp=2, bootstrap_port=running.up.ports["PDCP_KV_PORT"]).start()
    gateway = Gateway("gate", running.url, make_token(running.up.env, "gate", "read", "gateway")).start()
    with living(running, NAME, tmp_path_factory.mktemp("ranks") / "log", "--dp", "2", "--tp", "2"):
        operator = Operator(running.url, make_token(running.up.env, "keys", "read", "operate"), NAME)
        version = operator.until(f"instances/{NAME}", lambda said: said["complete"])["version"]
        told = {"engine_url": engine.url, "reason": "a test asks"}
        operator.ask("PATCH", f"instances/{NAME}", json=told, headers={"if-match": f'"{version}"'})
        yield engine
    gateway.stop()
    engine.stop()


def focused(page: Page) -> str:
    """What a screen reader says of where the keyboard is."""
    return page.evaluate("""() => {
      const node = document.activeElement;
      return (node.getAttribute('aria-label') ?? node.labels?.[0]?.textContent ?? node.textContent).replace(/\\s+/g, ' ').trim();
    }""")


def tab_to(page: Page, wanted: str, *, most: int = 80) -> None:
    """Press Tab until the focus is on what is called so; and each stop on the way can be seen."""
    passed = []
    for _ in range(most):
        page.keyboard.press("Tab")
        passed.append(focused(page))
        ring = page.evaluate("""() => {
          const node = document.activeElement, look = getComputedStyle(node);
          return node === document.body || look.outlineStyle !== 'none' || look.boxShadow !== 'none';
        }""")
        assert ring, f"nothing shows that {passed[-1]!r} has the focus"
        if re.fullmatch(wanted, passed[-1]):
            return
    raise AssertionError(f"{wanted!r} was not among {passed}")


def test_one_drain_from_the_first_key_to_the_last(site, ranks: Engine):
    ranks.counts[0].inflight = 1
    page = site.open("/").page
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    to_the_instance(page)
    through_the_dialog(page)
    to_its_end(page, ranks)


def to_the_instance(page: Page) -> None:
    """`/` narrows the list, `j` walks it, Enter opens."""
    page.keyboard.press("/")
    page.keyboard.type(NAME)
    page.wait_for_url(f"**/?q={NAME}")
    page.keyboard.press("Escape")
    for _ in range(8):
        if focused(page) == NAME:
            break
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/instances/{NAME}/")


def through_the_dialog(page: Page) -> None:
    """The focus goes into the dialog, stays in it, and comes back from it."""
    tab_to(page, f"Drain….*{NAME}")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert focused(page) == "why"
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert focused(page).startswith("Drain…")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    while focused(page) != "why":
        page.keyboard.press("Shift+Tab")
    page.keyboard.type("by keys alone")
    tab_to(page, f"Drain {NAME}")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.locator("#said")).to_contain_text(NAME)


def to_its_end(page: Page, engine: Engine) -> None:
    """`g d` leads to the drains; what blocks is read there, and the end is announced by the page itself."""
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.wait_for_url("**/drains/")
    tab_to(page, f".*{NAME}.*")
    page.keyboard.press("Enter")
    page.wait_for_url("**/drains/*/")
    main = page.locator("#main")
    expect(main).to_contain_text("still has requests", timeout=PATIENCE)
    engine.counts[0].inflight = 0
    expect(page.locator(".ph")).to_contain_text("drained", timeout=PATIENCE)
    tab_to(page, "Cancel.*….*")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    page.keyboard.type("back to work")
    tab_to(page, f"Cancel.* {NAME}.*")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(main).to_contain_text("cancelled", timeout=PATIENCE)


def test_the_grid_is_one_stop_and_arrows_walk_in_it(site, ranks):
    page = _instance(site).page
    tab_to(page, r"dp0.*tp0.*")
    stops = page.locator("[role=gridcell][tabindex='0']")
    expect(stops).to_have_count(1)
    for key, where in (
        ("ArrowRight", "dp0 .*tp1"),
        ("ArrowDown", "dp1 .*tp1"),
        ("Home", "dp1 .*tp0"),
        ("ArrowUp", "dp0 .*tp0"),
        ("ArrowUp", "dp0 .*tp0"),
        ("End", "dp0 .*tp1"),
        ("Control+End", "dp1 .*tp1"),
        ("Control+Home", "dp0 .*tp0"),
    ):
        page.keyboard.press(key)
        assert re.match(where, focused(page)), (key, focused(page))
        expect(stops).to_have_count(1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"rank=dp0\.cp0\.tp1\.pp0"))
    expect(page.get_by_role("complementary", name=re.compile("tp1"))).to_be_visible()
    expect(page.get_by_role("gridcell", selected=True)).to_have_accessible_name(re.compile("tp1"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    assert re.match("dp0 .*tp1", focused(page)), "where the keyboard was"
    page.keyboard.press("Tab")
    assert page.evaluate("!document.activeElement.closest('[role=grid]')"), "one stop"


def test_what_a_screen_reader_hears_of_the_grid(site, ranks):
    look = _instance(site)
    grid = look.page.get_by_role("grid")
    tree = grid.aria_snapshot()
    assert tree.startswith("- grid"), tree
    assert tree.count("- row") == 3 and tree.count("columnheader") >= 2 and tree.count("rowheader") == 2, tree
    cells = re.findall(r'gridcell "(.*?)"', tree)
    assert len(cells) == 4 and all(re.match(r"dp\d .*tp\d.*: \S+", cell) for cell in cells), tree
    # The table is the equal alternative, and says the same of each rank.
    look.page.get_by_role("link", name="Table", exact=True).click()
    rows = look.page.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(5)
    look.check()


def _instance(site: Site) -> Look:
    look = site.open(f"/instances/{NAME}/")
    look.live()
    expect(look.page.get_by_role("gridcell")).to_have_count(4)
    return look
