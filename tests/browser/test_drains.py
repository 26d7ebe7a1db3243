"""Drains, gateways and routers in a browser: one drain that waits for requests, for rooms, and for a gateway that fell silent."""

from __future__ import annotations

import re
from contextlib import ExitStack

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.cases.ranks import Ranks
from tests.doubles.engine import Engine
from tests.doubles.gateway import Gateway
from tests.doubles.router import StubbornRouter
from tests.support.operator import Operator, make_token
from tests.wire.client import Client, rank

FLEET, DP, TP = "prefill-b", 4, 8
# The first of them starts a control plane with a fleet, and waits until a gateway has fallen silent.
pytestmark = pytest.mark.timeout(300)
LOOKS = [(size, theme) for size in ("wide", "narrow") for theme in ("light", "dark")]


class Story:
    """A prefill of 4 × 8 ranks whose dp1 is drained, three gateways of which one fell silent, and a router."""

    def __init__(self, site: Site, stack: ExitStack) -> None:
        self.site, self.url = site, site.url
        env, ports = site.up.env, site.up.ports
        self.engine = Engine("prefill", dp=DP).start()
        decode = Engine("decode").start()
        self.router = StubbornRouter().start()
        ranks = Ranks()
        for server in (self.engine, decode, self.router):
            stack.callback(server.stop)
        stack.callback(ranks.close)
        site.manage("instances", "add", FLEET, "--engine-url", self.engine.url)
        site.manage("instances", "add", "decode-a", "--role", "decode", "--engine-url", decode.url)
        wire = f"http://127.0.0.1:{ports['PDCP_KV_PORT']}/i/{FLEET}/route"
        with httpx.Client(trust_env=False, timeout=30) as http:
            for dp in range(DP):
                for tp in range(TP):
                    axes = {"attn_dp_size": DP, "attn_dp_rank": dp, "attn_tp_size": TP, "attn_tp_rank": tp}
                    body = rank(rank_ip="127.0.0.1", rank_port=ranks.open(), **axes)
                    assert http.put(wire, json=body).status_code == 200
        self.operator = Operator(self.url, make_token(env, "ann", "read", "operate"), FLEET)
        self.operator.until(f"instances/{FLEET}", lambda said: said["complete"])
        self.gateways = {}
        for name in ("gw-1", "gw-2", "gw-3"):
            token = make_token(env, name, "read", "gateway")
            lease = 1.0 if name == "gw-2" else 15.0
            self.gateways[name] = Gateway(name, self.url, token, lease_seconds=lease)
            self.gateways[name].start()
            stack.callback(self.gateways[name].stop)
        self.operator.until(
            "gateways", lambda said: len(said["items"]) == 3 and all(i["acknowledged"] for i in said["items"])
        )
        site.manage("instances", "add", "prefill-c")
        told = {"name": "router-a", "url": self.router.url, "instances": ["decode-a", "prefill-c"], "reason": "a test"}
        self.operator.ask("POST", "routers", status=201, json=told)
        self.operator.act("drain", status=202, dp=3)
        self.operator.act("uncordon", dp=3, reason="the NIC came back")
        first = self.gateways["gw-1"]
        first.open[FLEET, 1] = 1
        first.shut["decode-a"] = "half_open"
        first._outcomes.update({(FLEET, "decode-a", "ok"): 1284, (FLEET, "decode-a", "timeout"): 3})

    def drain(self) -> int:
        """Of dp1: with 14 requests, of which 12 end, two rooms, and gw-2 that stays silent."""
        self.engine.counts[1].inflight = 14
        wire = Client(self.site.up.ports["PDCP_KV_PORT"], headers={"X-PD-Instance": FLEET})
        for room in (7301442885913264061, 2958804471136620917):
            assert wire.bind(room, 1).status == 200
        self.gateways["gw-2"].deaf = self.gateways["gw-2"].mute = True
        begun = self.operator.act(
            "drain", status=202, dp=1, deadline_seconds=1200, reason="replace the NIC of 10.4.2.31"
        )
        number = int(begun["operation"].removeprefix("drain-"))
        self.operator.until(f"drains/{number}", lambda said: len(said["readings"]) > 0)
        for left in (11, 9, 6, 2):
            self.engine.counts[1].inflight = left
            self.operator.until(
                f"drains/{number}",
                lambda said, left=left: any(one["counts"].get("inflight") == left for one in said["readings"]),
            )
        self.operator.until(f"drains/{number}", lambda said: any("gw-2 is silent" in one for one in said["blockers"]))
        return number


@pytest.fixture(scope="module")
def running(make_site) -> Site:
    return make_site(PDCP_PROBE_INTERVAL_SECONDS=0.5, PDCP_SITE_KIND="production", PDCP_SITE_NAME="eu-west-1")


@pytest.fixture(scope="module")
def story(running):
    with ExitStack() as stack:
        yield Story(running, stack)


@pytest.fixture(scope="module")
def drain(story) -> int:
    return story.drain()


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_a_drain_can_be_read_by_everybody(site, drain, size, theme):
    look = site.open(f"/drains/{drain}/", size=size, theme=theme)
    expect(look.page.locator("h1")).to_have_text(re.compile("Drain of prefill-b dp1"))
    expect(look.part("blocks")).to_contain_text("gw-2 is silent")
    look.live()
    look.check()
    look.shoot(f"drain-{theme}" if size == "wide" else f"drain-400-{theme}")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
@pytest.mark.parametrize("path", ["/drains/", "/gateways/", "/gateways/gw-1/", "/routers/router-a/"])
def test_every_list_and_page_of_those_who_choose_can_be_read_by_everybody(site, drain, path, size, theme):
    look = site.open(path, size=size, theme=theme)
    expect(look.page.locator("h1")).to_be_visible()
    look.live()
    look.check()
    name = path.strip("/").replace("/", "-")
    if theme == "light" or size == "wide":
        look.shoot(f"{name}-{theme}" if size == "wide" else f"{name}-400-{theme}")


def test_a_drain_page_follows_until_it_is_drained_and_ends_as_a_fresh_one(site, story, drain):
    story.engine.counts[2].inflight = 3
    begun = story.operator.act("drain", status=202, dp=2)
    path = f"/drains/{begun['operation'].removeprefix('drain-')}/"
    look = site.open(path)
    look.live()
    expect(look.part("blocks")).to_contain_text("gw-2 is silent")
    # It is gone for good, and what was open ends.
    story.operator.ask("DELETE", "gateways/gw-2", params={"reason": "it is gone"})
    expect(look.part("senders")).to_contain_text("2 of 2 that choose workers have stopped")
    expect(look.part("blocks")).not_to_contain_text("gw-2")
    story.engine.counts[2].inflight = 0
    expect(look.part("steps")).to_contain_text("safe_to_delete: yes")
    expect(look.part("head")).to_contain_text("Drained.")
    fresh = site.open(path)
    for name in ("blocks", "steps", "scope", "impact"):
        expect(look.part(name)).to_have_text(fresh.part(name).text_content() or "")
