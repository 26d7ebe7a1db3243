"""The activity page in a browser: charts are drawn, read and looked into, and new samples come by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.traffic import used

# Nothing of the time before the ranks were there: the invented samples are of it.
DAY = """
import time
from controlplane.models import Sample
from tests.dashboard.samples import keep_samples
Sample.objects.using("traffic").all().delete()
keep_samples(time.time() - 10, 86_400)
"""
SAMPLE_MS = 30_000


@pytest.fixture(scope="module")
def running(make_site: Callable[..., Site], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A day that was invented goes over into minutes that are real."""
    site = make_site(PDCP_ROOM_TTL_SECONDS=6)
    log: Path = tmp_path_factory.mktemp("ranks") / "log"
    with used(site.up, log):
        site.manage("shell", "-c", DAY)
        yield site


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_it_is_accessible_and_fits_its_window(site: Site, size, theme):
    look = site.open("/activity/?range=6h", size=size, theme=theme)
    expect(look.page.locator("[data-plot] canvas")).to_have_count(6)
    look.live()
    if (size, theme) != ("narrow", "dark"):
        look.shoot(f"activity-{'400-' if size == 'narrow' else ''}{theme}")
    look.check()


def test_what_the_pointer_is_on_stands_in_every_legend_and_the_newest_when_it_leaves(site: Site):
    page = site.open("/activity/?range=1h").page
    plot, legend = page.locator("#chart-lookups [data-plot]"), page.locator("#chart-lookups [data-at]")
    newest = legend.inner_text()
    plot.hover(position={"x": 160, "y": 60})
    expect(page.locator("#chart-lookups [data-under]")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    at = page.locator("#chart-lookups [data-under]").inner_text()
    expect(page.locator("#chart-rooms [data-under]")).to_have_text(at)
    expect(legend).not_to_have_text(newest)
    page.mouse.move(5, 5)
    expect(page.locator("#chart-lookups [data-under]")).to_have_text("")
    expect(legend).to_have_text(re.compile(r"^[\d.,]+$"))


def test_a_table_that_was_opened_stays_open_when_newer_numbers_come(site: Site):
    page = site.open("/activity/?range=15m").page
    table = page.locator("#chart-rooms details")
    table.locator("summary").click()
    expect(table.locator("tbody tr").first).to_be_visible()
    canvas = page.locator("#chart-rooms canvas").element_handle()
    with page.expect_response(lambda answer: answer.request.headers.get("x-pdcp-parts") == "charts"):
        page.evaluate("document.dispatchEvent(new CustomEvent('pdcp:refresh', {detail: {parts: ['charts']}}))")
    expect(table).to_have_attribute("open", "")
    # The picture is the same one, with other numbers: it does not flicker.
    assert canvas is not None and canvas.evaluate("node => node.isConnected")


def test_a_part_that_is_dragged_across_becomes_the_time_of_the_page_and_later_leads_back(site: Site):
    page = site.open("/activity/?range=1h").page
    box = page.locator("#chart-bindings [data-plot]").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 120, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 240, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"since=.+&until=.+"))
    expect(page.get_by_text("does not move")).to_be_visible()
    expect(page.locator("[data-plot] canvas")).to_have_count(6)
    page.get_by_role("link", name="6h").click()
    page.wait_for_url("**/activity/?range=6h")
    page.get_by_role("link", name="Earlier").click()
    expect(page.get_by_text("does not move")).to_be_visible()
    page.get_by_role("link", name="Later").click()
    page.wait_for_url(re.compile("range=6h"))


def test_themes_and_time_zones_are_drawn_anew(site: Site):
    page = site.open("/activity/?range=15m").page
    before = page.locator("#chart-lookups canvas").element_handle()
    page.locator("[data-theme-next]").click()
    expect(page.locator("[data-plot] canvas")).to_have_count(6)
    assert before is not None and not before.evaluate("node => node.isConnected")
    page.locator("[data-zone-next]").click()
    expect(page.locator("[data-plot] canvas")).to_have_count(6)


REGISTERED = """() => document.querySelector('#chart-registrations [data-values]').dataset.values.split(',')
    .reduce((sum, number) => sum + Number(number), 0) / 6"""
"""How many registrations the chart of a quarter of an hour shows: its points are ten seconds, in registrations a minute."""


def test_what_just_happened_is_in_the_charts_without_a_reload(site: Site):
    page = site.open("/activity/?range=15m").page
    before = page.evaluate(REGISTERED)
    page.evaluate("window.stayed = true")
    site.simulate("newcomer", "--tp", "4")
    page.wait_for_function(f"before => ({REGISTERED})() >= before + 3.9", arg=before, timeout=SAMPLE_MS)
    assert page.evaluate("window.stayed") is True
    # It is in use, and says how much.
    expect(page.locator("#part-charts .say").first).to_have_text(
        re.compile(r"^[1-9]\d\d look-ups a second; [1-9][\d.]* rooms a second are opened and [1-9]\S* are alive; ")
    )
