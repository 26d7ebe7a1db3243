"""Pages under load: a hundred changes a second, and a person who goes on working in them."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from playwright.sync_api import Browser, expect

from controlplane.domain.topology import Slot
from controlplane.simulation.payload import route_row
from controlplane.simulation.shape import Shape
from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import FACTS, is_as_loaded_now, living, registers
from tests.support.machine import slowness
from tests.support.operator import Operator, make_token
from tests.support.processes import Child

SHAPE = Shape(dp=8, tp=64)
RANKS = 512
INSTANCES = 120
CHANGES_PER_SECOND = 100
SECONDS = 10
LONGEST_TASK_MS = 100
"""A key that waits for longer than this feels as if it did nothing."""

BUSY_SHARE = 0.25
"""How much of the time the page may compute; in the rest it hears whoever works in it."""

Put = Callable[[httpx.Client, int], object]
choose = random.Random(7)


@contextmanager
def running_beside(*works: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=[stop], daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


def puts(done: list[int], put: Put) -> Callable[[threading.Event], None]:
    """`put(client, number)` a hundred times a second; `done[0]` counts."""

    def work(stop: threading.Event) -> None:
        began = time.monotonic()
        with httpx.Client(timeout=30, trust_env=False) as client:
            while not stop.wait(max(0.0, began + done[0] / CHANGES_PER_SECOND - time.monotonic())):
                put(client, done[0])
                done[0] += 1

    return work


def worked_in(browser: Browser, look: Look, key: str) -> list[float]:
    """Press a key five times a second; what the page computed meanwhile, in ms a task, longest first."""
    browser.start_tracing(page=look.page, categories=["toplevel"])
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        look.page.keyboard.press(key)
        look.page.wait_for_timeout(200)
    return tasks_of(browser.stop_tracing())


def tasks_of(trace: bytes) -> list[float]:
    """Milliseconds of each task of the page's main thread, longest first: of work, not of waiting for a processor."""
    events = json.loads(trace)["traceEvents"]
    mains = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    found = (one for one in events if one["name"] == "ThreadControllerImpl::RunTask" and one["ph"] == "X")
    return sorted((one.get("tdur", 0) / 1000 for one in found if (one["pid"], one["tid"]) in mains), reverse=True)


def holds(tasks: list[float], registered: int, changed: int) -> None:
    print(
        f"{registered} ranks registered, {changed} changes; tasks of {sum(tasks):.0f} ms in all,"
        f" {sum(task > 50 for task in tasks)} longer than 50 ms, the longest {[round(task) for task in tasks[:5]]}"
    )
    assert registered >= 0.8 * CHANGES_PER_SECOND * SECONDS / slowness()
    assert tasks[0] <= LONGEST_TASK_MS and sum(tasks) <= 1000 * SECONDS * BUSY_SHARE


def test_a_grid_of_512_ranks_stays_responsive_under_a_hundred_changes_a_second(site, browser, tmp_path):
    operator = Operator(site.url, make_token(site.up.env, "pace", "read", "operate"), "busy")

    def cordon(stop: threading.Event) -> None:
        for count in itertools.count():
            for act in ("cordon", "uncordon"):
                operator.act(act, dp=count % SHAPE.dp)
                if stop.wait(0.5):
                    return

    with living(site, "busy", tmp_path / "ranks", "--dp", "8", "--tp", "64") as ranks:
        addresses = addresses_of(ranks)
        slots = sorted(addresses)

        def put(client: httpx.Client, number: int) -> None:
            """A living rank says another HTTP port, which is an event."""
            slot = choose.choice(slots)
            row = route_row(SHAPE, slot, FACTS, ip="127.0.0.1", port=addresses[slot], http_port=31_000 + number)
            client.put(f"{kv(site)}/i/busy/route", json=row)

        look = site.open("/instances/busy/")
        look.live()
        cells = look.page.get_by_role("grid").get_by_role("gridcell")
        expect(cells).to_have_count(RANKS)
        cells.first.focus()
        before, done = revision_of(look), [0]
        with running_beside(puts(done, put), cordon):
            tasks = worked_in(browser, look, "ArrowRight")
        expect(cells.first).not_to_be_focused()
        assert look.page.evaluate("document.activeElement.closest('[role=grid]') !== null")
        look.live()
        is_as_loaded_now(site, look)
        holds(tasks, done[0], revision_of(look) - before)


def test_a_list_of_instances_stays_responsive_under_a_hundred_changes_a_second(site, browser):
    names = [f"many-{number:03}" for number in range(INSTANCES)]
    for name in names:
        registers(site, name)

    def put(client: httpx.Client, number: int) -> None:
        row = route_row(
            Shape(tp=2), Slot(0, 0, number % 2, 0), FACTS, ip="127.0.0.1", port=2 + number, http_port=30_000
        )
        client.put(f"{kv(site)}/i/{choose.choice(names)}/route", json=row)

    look = site.open("/")
    look.live()
    link = look.page.get_by_role("link", name="many-007", exact=True)
    link.focus()
    before, done = revision_of(look), [0]
    with running_beside(puts(done, put)):
        tasks = worked_in(browser, look, "Shift")
    expect(link).to_be_focused()
    look.live()
    holds(tasks, done[0], revision_of(look) - before)


def addresses_of(ranks: Child) -> dict[Slot, int]:
    """Where the ranks of a simulation listen."""
    slots = {str(slot): slot for slot in (Slot(dp, 0, tp, 0) for dp in range(SHAPE.dp) for tp in range(SHAPE.tp))}
    said = [json.loads(line) for line in ranks.lines if '"registered"' in line]
    return {slots[one["slot"]]: one["port"] for one in said if one["what"] == "registered"}


def kv(site: Site) -> str:
    return f"http://127.0.0.1:{site.up.ports['PDCP_KV_PORT']}"


def revision_of(look: Look) -> int:
    return int(look.page.locator("[data-live-revision]").inner_text())
