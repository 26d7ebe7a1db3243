"""How a page hears of changes: sockets that are blocked, messages that are lost, and nobody who looks."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import Request, WebSocketRoute, expect

from controlplane.domain.topology import Slot
from controlplane.simulation.shape import Shape
from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import HIDE, MARK, is_as_loaded_now, pill_says, registers, said, was_never_reloaded

SOCKET = re.compile(r"/ws/fleet")


@pytest.fixture
def look(site: Site) -> Look:
    opened = site.open("/")
    opened.live()
    opened.page.evaluate(MARK)
    return opened


@pytest.mark.parametrize("way", ["refused", "swallowed"])
def test_where_sockets_are_blocked_the_page_polls(site, way):
    does = {"refused": lambda socket: socket.close(), "swallowed": lambda socket: None}[way]
    look = site.open("/", before=lambda page: page.route_web_socket(SOCKET, does))
    look.page.evaluate(MARK)
    pill_says(look, "polling", seconds=40)
    expect(look.page.locator("#live")).to_contain_text("every 5s")
    registers(site, f"polled-{way}")
    said(look, f"polled-{way}")
    pill_says(look, "polling")
    was_never_reloaded(look)


def test_a_lost_message_is_noticed_and_nothing_is_lost(site):
    lost: list[str] = []

    def between(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def on(message: str | bytes) -> None:
            if '"events"' in str(message) and not lost:
                lost.append(str(message))
            else:
                socket.send(message)

        server.on_message(on)

    look = site.open("/", before=lambda page: page.route_web_socket(SOCKET, between))
    look.live()
    registers(site, "said-once")
    deadline = time.monotonic() + 20
    while not lost and time.monotonic() < deadline:
        look.page.wait_for_timeout(100)
    assert lost, "something was lost on the way"
    registers(site, "said-later")
    said(look, "said-once")
    said(look, "said-later")
    pill_says(look, "live")


def test_a_paused_page_stays_as_it_is_and_says_how_much_is_newer(site, look):
    pill = look.page.locator("#live")
    pill.get_by_role("button", name="Pause live updates").click()
    pill_says(look, "paused")
    registers(site, "while-paused")
    expect(pill).to_contain_text(re.compile(r"[1-9]\d* newer"), timeout=20_000)
    assert "while-paused" not in look.page.locator("#main").inner_text()
    pill.get_by_role("button", name="Go on").click()
    said(look, "while-paused")
    pill_says(look, "live")
    is_as_loaded_now(site, look)


def test_a_hidden_tab_asks_for_nothing_and_catches_up_when_it_is_looked_at(site, look):
    asked: list[str] = []
    look.page.on("request", lambda request: _note(asked, request))
    look.page.evaluate(HIDE, True)
    registers(site, "while-hidden")
    look.page.wait_for_timeout(2000)
    assert not asked and "while-hidden" not in look.page.locator("#main").inner_text()
    look.page.evaluate(HIDE, False)
    said(look, "while-hidden", seconds=5)
    assert asked


def test_many_changes_are_asked_for_together(site, look):
    asked: list[str] = []
    look.page.on("request", lambda request: _note(asked, request))
    began = time.monotonic()
    registers(site, "of-many", *(Slot(0, 0, tp, 0) for tp in range(64)), shape=Shape(tp=64))
    said(look, "of-many")
    look.page.wait_for_timeout(1000)
    assert len(asked) <= 4 * (time.monotonic() - began), "at most every 300 ms"


def test_a_computer_that_is_offline_is_said_and_catches_up(site, look):
    look.page.context.set_offline(True)
    pill_says(look, "stale")
    registers(site, "while-offline")
    look.page.context.set_offline(False)
    pill_says(look, "live")
    said(look, "while-offline")
    was_never_reloaded(look)


def test_a_database_that_does_not_answer_is_said_until_it_does(site):
    sockets: list[WebSocketRoute] = []
    away: list[bool] = []  # from then on the server is not heard: its own beats would say that its database answers

    def between(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda message: None if away else socket.send(message))
        sockets.append(socket)

    look = site.open("/rooms/", before=lambda page: page.route_web_socket(SOCKET, between))
    look.live()
    look.page.route("**/rooms/", lambda route: route.fulfill(status=503, body="away"))
    cursor = look.page.evaluate("document.body.dataset.cursor")
    beat = {
        "type": "beat",
        "from": int(cursor.split(":")[1]),
        "to": int(cursor.split(":")[1]),
        "cursor": cursor,
        "away": True,
    }
    away.append(True)
    sockets[-1].send(json.dumps(beat))
    pill_says(look, "stale")
    expect(look.page.locator("#live")).to_contain_text("the database is away")
    look.page.wait_for_timeout(6000)
    pill_says(look, "stale")
    look.page.unroute("**/rooms/")
    pill_says(look, "live")


def test_a_page_of_the_past_stays_as_it_is_and_leads_back(site):
    registers(site, "of-the-past")
    look = site.open("/events/fleet/?as_of=1")
    pill_says(look, "as-of")
    asked: list[str] = []
    look.page.on("request", lambda request: _note(asked, request))
    registers(site, "of-today")
    look.page.wait_for_timeout(1500)
    assert not asked and "of-today" not in look.page.locator("#main").inner_text()
    look.page.get_by_role("button", name="Back to live").click()
    look.page.wait_for_url("**/events/**")
    look.live()


def _note(asked: list[str], request: Request) -> None:
    if parts := request.headers.get("x-pdcp-parts"):
        asked.append(parts)
