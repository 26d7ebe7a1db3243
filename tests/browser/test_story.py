"""The story of a fleet as an operator sees it, with ranks of the real SGLang: from nothing, over a restart, to retired."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import is_as_loaded_now
from tests.compat.conftest import SGLang, sglang, sglang_process  # noqa: F401
from tests.doubles.engine import Engine
from tests.doubles.gateway import Gateway
from tests.support.operator import Operator, make_token

NAME = "prefill-a"
RANKS = 4
PATIENCE = 40_000


@pytest.fixture(scope="module")
def running(make_site) -> Site:
    return make_site(PDCP_PROBE_INTERVAL_SECONDS=0.5)


@contextmanager
def company(site: Site) -> Iterator[Engine]:
    """The engine behind the ranks, which says what is open there, and a gateway, which must stop sending to it."""
    engine = Engine("prefill", bootstrap_port=site.up.ports["PDCP_KV_PORT"]).start()
    gateway = Gateway("gate", site.url, make_token(site.up.env, "gate", "read", "gateway")).start()
    try:
        yield engine
    finally:
        gateway.stop()
        engine.stop()


@pytest.mark.timeout(300)
def test_from_an_empty_fleet_over_a_restart_and_a_drain_to_retired(site: Site, sglang: SGLang):  # noqa: F811
    fleet, one = site.open("/"), site.open("/")
    fleet.live()
    expect(fleet.page.get_by_role("heading", name="No instance has registered yet")).to_be_visible()
    fleet.page.evaluate("window.opened = true")
    with company(site) as engine:
        registers_one_by_one(site, sglang, fleet)
        one.go(f"/instances/{NAME}/")
        one.live()
        one.page.evaluate("window.opened = true")
        restarts(sglang, fleet, one)
        name_the_engine(site, engine)
        drains(site, engine, one)
        sglang.go_on()
        retires(one, fleet)
    for look in (fleet, one):
        assert look.page.evaluate("window.opened"), "all of it without a reload"
        is_as_loaded_now(site, look)


def registers_one_by_one(site: Site, sglang: SGLang, fleet: Look) -> None:  # noqa: F811
    """The page that was open all the time counts them."""
    kv = site.up.ports["PDCP_KV_PORT"]
    sglang.open("one_by_one", port=kv, shape={"tp": RANKS}, instance=NAME)
    row = row_of(fleet)
    for number in range(1, RANKS):
        expect(row).to_contain_text(f"{number}/{RANKS}", timeout=PATIENCE)
        sglang.go_on()
    expect(row).to_contain_text("up", timeout=PATIENCE)
    expect(row.get_by_role("img", name=re.compile("routable"))).to_be_visible()


def restarts(sglang: SGLang, fleet: Look, one: Look) -> None:  # noqa: F811
    """A second launch opens beside the first, fills while that one serves, and takes over once its ranks are gone."""
    first = launch_of(one)
    for number in range(1, RANKS + 1):
        sglang.go_on()
        if number < RANKS:
            expect(one.page.locator("#main")).to_contain_text(f"{number} of {RANKS} registered", timeout=PATIENCE)
            expect(row_of(fleet)).to_contain_text(f"at {number}/{RANKS}", timeout=PATIENCE)
    expect(one.page.get_by_role("grid")).to_have_count(2)
    one.shoot("story-candidate")
    sglang.go_on()
    expect(one.page.get_by_role("heading", name=f"Launch {first}", exact=True)).to_have_count(0, timeout=PATIENCE)
    expect(one.page.get_by_role("heading", name=f"Launch {first + 1}", exact=True)).to_be_visible()
    cells = one.page.get_by_role("gridcell")
    expect(cells).to_have_count(RANKS)
    for at in range(RANKS):
        expect(cells.nth(at)).to_have_accessible_name(re.compile(f"tp{at}.*routable"), timeout=PATIENCE)


def name_the_engine(site: Site, engine: Engine) -> None:
    """What the wire does not say: where the engine answers."""
    operator = Operator(site.url, make_token(site.up.env, "story", "read", "operate"), NAME)
    version = operator.get(f"instances/{NAME}")["version"]
    told = {"engine_url": engine.url, "reason": "the story"}
    operator.ask("PATCH", f"instances/{NAME}", json=told, headers={"if-match": f'"{version}"'})


def drains(site: Site, engine: Engine, one: Look) -> None:
    """It waits for what the engine still holds, says so, and is drained when that is done."""
    engine.counts[0].inflight = 1
    page = one.page
    page.get_by_role("link", name="Drain…").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("why").fill("the story ends here")
    dialog.get_by_role("button", name=f"Drain {NAME}").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("#toasts")).to_contain_text(NAME)
    drain = site.open("/drains/")
    drain.page.locator("#main").get_by_role("link", name=re.compile(NAME)).first.click()
    drain.page.wait_for_url("**/drains/*/")
    drain.live()
    expect(drain.page.get_by_role("heading", name=f"Drain of {NAME}")).to_be_visible()
    expect(drain.part("blocks") if drain.part("blocks").count() else drain.page.locator("#main")).to_contain_text(
        "still has requests", timeout=PATIENCE
    )
    drain.shoot("story-drain-blocked")
    engine.counts[0].inflight = 0
    expect(drain.page.locator(".ph")).to_contain_text("drained", timeout=PATIENCE)
    expect(page.locator(".ph")).to_contain_text("safe to delete", timeout=PATIENCE)
    is_as_loaded_now(site, drain)


def retires(one: Look, fleet: Look) -> None:
    """Only whoever types its name retires it."""
    page = one.page
    page.get_by_label("More actions").click()
    page.get_by_role("link", name="Retire…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("why").fill("its machine goes back")
    dialog.get_by_label(re.compile("^type")).fill("prefill-b")
    dialog.get_by_role("button", name=f"Retire {NAME}").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label(re.compile("^type")).fill(NAME)
    dialog.get_by_role("button", name=f"Retire {NAME}").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".ph .axis-row")).to_contain_text("retired", timeout=PATIENCE)
    expect(fleet.page.locator("#main")).to_contain_text("1 retired", timeout=PATIENCE)


def row_of(fleet: Look) -> Locator:
    return fleet.page.get_by_role("row", name=re.compile(NAME))


def launch_of(one: Look) -> int:
    heading = one.page.get_by_role("heading", name=re.compile(r"^Launch \d+$"))
    return int(str(heading.first.inner_text()).split()[1])
