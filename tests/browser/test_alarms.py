"""Alarms in a browser, with everything real: ranks that die, the clockwork that sees it, a receiver that is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.cases.ranks import Ranks, complete, eventually, here
from tests.doubles.receiver import Receiver
from tests.support.machine import slowness
from tests.support.operator import Operator, make_token
from tests.wire.client import Client

# The first of them starts a control plane and waits until an alarm was raised and told.
pytestmark = pytest.mark.timeout(300)
LOOKS = [(size, theme) for size in ("wide", "narrow") for theme in ("light", "dark")]
SECRET = "between us"
NAME, TP = "prefill-a", 4


class Story:
    """An instance of four ranks; one of them dies, and comes back when it is told to."""

    def __init__(self, site: Site, receiver: Receiver, ranks: Ranks) -> None:
        self.site, self.receiver, self.ranks = site, receiver, ranks
        site.manage("instances", "add", NAME)
        self.wire = Client(site.up.ports["PDCP_KV_PORT"], headers={"X-PD-Instance": NAME})
        self.ports = [self.ranks.open() for _ in range(TP)]
        for tp in range(TP):
            self.register(tp)
        complete(self.wire, within=20)
        self.operator = Operator(site.url, make_token(site.up.env, "ann", "read", "operate"), NAME)

    def register(self, tp: int) -> None:
        answer = self.wire.put(attn_tp_size=TP, attn_tp_rank=tp, **here(rank_port=self.ports[tp]))
        assert answer.status == 200, answer

    def lose(self) -> int:
        """The alarm, once it was raised and the receiver has heard of it."""
        self.ranks.die(self.ports[3])
        said = self.operator.until(
            "alarms?status=open", lambda said: any(one["state"] == "down" for one in said["items"])
        )
        number = next(one["id"] for one in said["items"] if one["state"] == "down")
        eventually(lambda: self.heard("raised", number), within=20 * slowness())
        return number

    def heard(self, kind: str, number: int) -> bool:
        return any((one["kind"], one.get("alarm")) == (kind, number) for one in self.receiver.messages)

    def mend(self) -> None:
        self.ranks.open(self.ports[3])
        self.register(3)


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver(secret=SECRET) as running:
        yield running


@pytest.fixture(scope="module")
def running(make_site, receiver) -> Site:
    hook = {"PDCP_ALARM_WEBHOOK_URL": receiver.hook, "PDCP_ALARM_WEBHOOK_SECRET": SECRET}
    return make_site(PDCP_PROBE_INTERVAL_SECONDS=0.5, **hook)


@pytest.fixture(scope="module")
def story(running, receiver) -> Iterator[Story]:
    with ExitStack() as stack:
        ranks = Ranks()
        stack.callback(ranks.close)
        yield Story(running, receiver, ranks)


@pytest.fixture(scope="module")
def alarm(story) -> int:
    return story.lose()


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_alarms_can_be_read_by_everybody(site, alarm, size, theme):
    look = site.open("/alarms/", size=size, theme=theme)
    row = look.page.locator(f"#a{alarm}")
    expect(row).to_contain_text("prefill-a takes no requests: 1 of its 4 ranks is gone")
    if size == "wide":
        expect(look.part("frame").get_by_role("link", name=re.compile("^Alarms"))).to_contain_text(re.compile(r"\d"))
    look.live()
    look.check()
    look.shoot(f"alarms-{theme}" if size == "wide" else f"alarms-400-{theme}")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_one_alarm_and_its_runbook_can_be_read_by_everybody(site, alarm, size, theme):
    look = site.open(f"/alarms/{alarm}/", size=size, theme=theme)
    expect(look.page.locator("h1")).to_contain_text("prefill-a takes no requests")
    expect(look.part("told")).to_contain_text("delivered")
    look.check()
    look.shoot(f"alarm-{theme}" if size == "wide" else f"alarm-400-{theme}")
    look.go("/alarms/runbooks/#down-instance")
    look.check()


@pytest.mark.parametrize(("size", "theme"), [("wide", "light"), ("narrow", "dark")])
def test_the_overview_leads_to_the_alarm(site, alarm, size, theme):
    look = site.open("/", size=size, theme=theme)
    expect(look.part("attention").get_by_role("link", name=f"alarm {alarm}")).to_be_visible()
    look.check()
    look.part("attention").get_by_role("link", name=f"alarm {alarm}").click()
    expect(look.page).to_have_url(re.compile(f"/alarms/{alarm}/$"))


def test_an_open_page_sees_it_acknowledged_and_over_and_so_does_the_receiver(site, story, alarm):
    watching = site.open("/alarms/", who="vera")
    watching.live()
    acting = site.open("/alarms/")
    acting.page.get_by_role("link", name=re.compile(f"Acknowledge… alarm {alarm}")).click()
    dialog = acting.page.get_by_role("dialog")
    dialog.get_by_label("why").fill("the node was fenced")
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(watching.page.locator(f"#a{alarm}")).to_contain_text("olga: the node was fenced")
    story.mend()
    expect(watching.part("over")).to_contain_text(f"alarm {alarm}", timeout=60_000 * slowness())
    expect(watching.part("open")).not_to_contain_text(f"alarm {alarm}")
    eventually(lambda: story.heard("resolved", alarm), within=20 * slowness())
    own = [one["kind"] for one in story.receiver.messages if one.get("alarm") == alarm]
    assert own == ["raised", "acknowledged", "resolved"] and story.receiver.refused == []
