"""Rooms, pairs and weights in a browser: a room and its ladder, a pair that cannot work, a seed that lacks a rank."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.cases.ranks import Ranks
from tests.support.machine import slowness
from tests.support.operator import Operator, make_token
from tests.wire.client import Client, rank

ROOM, TWICE = 7301442885913264061, 6120775938442107394
LOOKS = [(size, theme) for size in ("wide", "narrow") for theme in ("light", "dark")]


class Fleet:
    """Three prefills and four decodes that fit or do not, rooms of two of them, and seeds of which one lacks rank 11."""

    def __init__(self, site: Site, ranks: Ranks) -> None:
        self.site, self.ranks = site, ranks
        self.token = make_token(site.up.env, "ann", "read", "operate", "gateway")
        self.operator = Operator(site.url, self.token, "prefill-a")
        for name, role in [*((f"decode-{letter}", "decode") for letter in "abcd"), ("seed-a", "seed")]:
            self.operator.ask("POST", "instances", status=201, json={"name": name, "role": role, "reason": "a test"})
        self.register("prefill-a", dp=2, tp=4)
        self.register("prefill-b", dp=4, tp=2, load_balance_method="round_robin")
        self.register("prefill-c", dp=1, tp=4, pp=2, kv_cache_dtype="fp8_e4m3")
        self.register("decode-b", dp=2, tp=4)
        self.register("decode-c", dp=1, tp=2, page_size=32)
        self.register("decode-d", dp=1, tp=3)
        for name in ("prefill-a", "prefill-b", "prefill-c"):
            self.operator.until(f"instances/{name}", lambda said: said["complete"])
        self.bind()
        self.publish()
        self.report()

    def register(self, name: str, *, dp: int, tp: int, pp: int = 1, **facts: object) -> None:
        wire = self.wire(name)
        for group in range(dp):
            for place in range(tp):
                for stage in range(pp):
                    sizes = {"attn_dp_size": dp, "attn_tp_size": tp, "pp_size": pp}
                    slot = {"attn_dp_rank": group, "attn_tp_rank": place, "pp_rank": stage}
                    body = rank(rank_ip="127.0.0.1", rank_port=self.ranks.open(), **sizes, **slot, **facts)
                    assert wire("PUT", "/route", js=body).status == 200

    def wire(self, name: str, port: str = "PDCP_KV_PORT") -> Client:
        return Client(self.site.up.ports[port], headers={"X-PD-Instance": name})

    def bind(self) -> None:
        wire = self.wire("prefill-b")
        for room, dp in ((ROOM, 1), (TWICE, 0), (TWICE, 2), *((2**61 + n, n % 4) for n in range(30))):
            assert wire.bind(room, dp).status == 200

    def publish(self) -> None:
        weights = {f"model.layers.{n}.mlp.gate_up_proj.weight": [2**47 + n * 2**20, 4096 * 7168, 2] for n in range(120)}
        wire = self.wire("seed-a", "PDCP_ENGINE_INFO_PORT")
        for number in (*range(11), *range(12, 16)):
            assert wire.publish(session=f"127.0.0.1:{self.ranks.open()}", weights=weights, rank=number).status == 200
        claims = {"session": f"127.0.0.1:{self.ranks.open()}", "weights": weights, "tp_rank": 0}
        assert wire.publish(**claims).status == 200
        assert self.wire("prefill-a", "PDCP_ENGINE_INFO_PORT").publish(weights=weights, rank=3).status == 200

    def report(self) -> None:
        self.operator.ask("POST", "gateways", json={"name": "gw-1"})
        counts = [("prefill-a", "decode-b", "ok", 47_000), ("prefill-b", "decode-a", "ok", 25_020)]
        counts += [("prefill-a", "decode-a", "ok", 38_700), ("prefill-a", "decode-a", "decode_failed", 710)]
        outcomes = [{"prefill": p, "decode": d, "outcome": how, "count": n} for p, d, how, n in counts]
        self.operator.ask("POST", "gateways/gw-1/outcomes", json={"outcomes": outcomes})


@pytest.fixture(scope="module")
def fleet(running: Site):
    with ExitStack() as stack:
        ranks = Ranks()
        stack.callback(ranks.close)
        yield Fleet(running, ranks)


PAGES = {
    "rooms": "/rooms/",
    "rooms-of": "/rooms/?instance=prefill-b",
    "room": f"/rooms/{ROOM}/",
    "pairs": "/pairs/?prefill=prefill-a&decode=decode-c",
    "weights": "/weights/",
    "weights-instance": "/weights/seed-a/",
    "session": "/weights/seed-a/0/1/",
}


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_every_page_is_accessible_in_every_size_and_theme(site: Site, fleet: Fleet, size, theme):
    look = site.open("/rooms/", size=size, theme=theme)
    for name, path in PAGES.items():
        look.go(path)
        look.live()
        look.check()
        if (size, theme) != ("narrow", "dark"):
            look.shoot(f"{name}-{theme}" if size == "wide" else f"{name}-400-{theme}")


def test_a_room_is_found_from_the_page_by_its_number(site: Site, fleet: Fleet):
    page = site.open("/rooms/").page
    page.get_by_label("Room", exact=True).fill(f" {TWICE}")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/rooms/{TWICE}/$"))
    expect(page.locator(".say").first).to_contain_text("bound it to dp2 while its binding to dp0 was alive")
    page.get_by_role("link", name="Open prefill-b").click()
    expect(page).to_have_url(re.compile("/instances/prefill-b/$"))


def test_the_next_rung_of_a_room_that_is_on_its_way_is_shown_before_pages_are_asked_for_anyway(
    site: Site, fleet: Fleet
):
    """No event tells of reports, and every page looks again by itself after 15 s: this one does so after 2."""
    room, token = 4120775938442107395, make_token(site.up.env, "worker", "report", "read")
    worker = Operator(site.url, token, "prefill-a")

    def tell(rung: str) -> None:
        said = {"room": str(room), "instance": "prefill-a", "rung": rung, "result": "passed", "age_seconds": 0}
        worker.ask("POST", "workers/evidence", json={"source": "decode/1", "evidence": [said]})

    tell("resolved")
    look = site.open(f"/rooms/{room}/")
    look.live()
    expect(look.page.locator("main")).to_contain_text("1 of 5 rungs proven")
    for proven, rung in enumerate(("connected", "verified"), 2):
        tell(rung)
        expect(look.page.locator("main")).to_contain_text(f"{proven} of 5 rungs proven", timeout=10_000 * slowness())


def test_a_pair_is_chosen_in_place_and_the_address_bar_knows_it(site: Site, fleet: Fleet):
    page = site.open("/pairs/").page
    page.evaluate("window.here = true")
    cell = page.locator("[id='pc-prefill-a--decode-b']")
    cell.click()
    expect(page.locator("#h-why")).to_have_text("prefill-a × decode-b")
    expect(cell).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile(r"\?prefill=prefill-a&decode=decode-b$"))
    assert page.evaluate("window.here") is True
    page.go_back()
    expect(page.locator("#h-why")).not_to_have_text("prefill-a × decode-b")


def test_the_matrix_is_narrowed_as_somebody_types_and_follows_what_operators_want(site: Site, fleet: Fleet):
    look = site.open("/pairs/")
    look.live()
    page, rows = look.page, look.page.locator("table.mx tbody tr")
    expect(rows).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("a")
    expect(page.locator("table.mx thead a")).to_have_count(4)
    page.keyboard.type("xyz")
    expect(page.locator("#part-matrix")).to_contain_text("No pair has “axyz” in a name")
    page.get_by_role("link", name="Show all").click()
    look.live()
    off = page.locator("[id='pc-prefill-b--decode-b']").get_by_text("prefill-b not routable")
    expect(off).to_have_count(0)
    operator = Operator(site.url, fleet.token, "prefill-b")
    operator.act("cordon")
    expect(off).to_have_count(1)
    operator.act("uncordon")
    expect(off).to_have_count(0)


def test_a_decode_that_never_registered_is_described_and_compared(site: Site, fleet: Fleet):
    page = site.open("/pairs/?prefill=prefill-a&decode=decode-a").page
    for label, text in (("TP", "4"), ("page_size", "32"), ("kv_cache_dtype", "auto")):
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_label("MLA model").select_option("no")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#part-pair .say").first).to_contain_text("page_size differs: prefill has 64, decode has 32")
    expect(page.locator("#part-pair")).to_contain_text("Start decode-a with --page-size 64")
    expect(page.get_by_label("page_size", exact=True)).to_have_value("32")


def test_a_rank_that_publishes_at_last_is_counted_without_a_reload(site: Site, fleet: Fleet):
    look = site.open("/weights/seed-a/")
    look.live()
    expect(look.page.locator(".say").first).to_contain_text("15 of at least 16 ranks, missing 11.")
    wire = fleet.wire("seed-a", "PDCP_ENGINE_INFO_PORT")
    assert wire.publish(session=f"127.0.0.1:{fleet.ranks.open()}", weights={"w": [0, 1, 2]}, rank=11).status == 200
    expect(look.page.locator(".say").first).to_contain_text("16 of at least 16 ranks.")


def test_tensors_are_found_by_a_part_of_their_name(site: Site, fleet: Fleet):
    page = site.open("/weights/seed-a/0/1/").page
    expect(page.locator("table.ten tbody tr")).to_have_count(100)
    page.get_by_label("Filter by name").fill("layers.117.")
    page.keyboard.press("Enter")
    expect(page.locator("table.ten tbody tr")).to_have_count(1)
