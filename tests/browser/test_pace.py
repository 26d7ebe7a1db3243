"""A page under load: 512 ranks, a hundred changes a second, and a person who goes on working in it."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from playwright.sync_api import expect

from controlplane.domain.topology import Slot
from controlplane.simulation.payload import route_row
from controlplane.simulation.shape import Shape
from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.browser.truth import FACTS, is_as_loaded_now, living
from tests.support.machine import slowness

SHAPE = Shape(dp=8, tp=64)
RANKS = 512
FLAPPING = [Slot(7, 0, tp, 0) for tp in range(64)]
"""Ranks that register, are found dead, and register at another address."""

CHANGES_PER_SECOND = 100
SECONDS = 10
LONGEST_TASK_MS = 100
"""A key that waits for longer than this feels as if it did nothing."""

BUSY_SHARE = 0.2
"""How much of the time the page may compute; in the rest it hears whoever works in it."""


@contextmanager
def changes(site: Site, instance: str) -> Iterator[list[int]]:
    """While the block runs, ranks register at addresses where nobody listens. Tells how many did."""
    done, stop = [0], threading.Event()
    url = f"http://127.0.0.1:{site.up.ports['PDCP_KV_PORT']}/i/{instance}/route"
    choose = random.Random(7)

    def run() -> None:
        ports = itertools.cycle(range(2, 1000))
        began = time.monotonic()
        with httpx.Client(timeout=30, trust_env=False) as client:
            while not stop.wait(max(0.0, began + done[0] / CHANGES_PER_SECOND - time.monotonic())):
                row = route_row(
                    SHAPE, choose.choice(FLAPPING), FACTS, ip="127.0.0.1", port=next(ports), http_port=30_000
                )
                client.put(url, json=row)
                done[0] += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join(30)


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


def test_a_grid_of_512_ranks_stays_responsive_under_a_hundred_changes_a_second(site, browser, tmp_path):
    with living(site, "busy", tmp_path / "ranks", "--dp", "8", "--tp", "64", "--skip", "dp7"):
        look = site.open("/instances/busy/")
        look.live()
        cells = look.page.get_by_role("grid").get_by_role("gridcell")
        expect(cells).to_have_count(RANKS)
        cells.first.focus()
        browser.start_tracing(page=look.page, categories=["toplevel"])
        before, presses = revision_of(look), 0
        with changes(site, "busy") as registered:
            began = time.monotonic()
            while (took := time.monotonic() - began) < SECONDS:
                look.page.keyboard.press("ArrowRight")
                presses += 1
                look.page.wait_for_timeout(200)
        tasks = tasks_of(browser.stop_tracing())
        expect(cells.nth(min(presses, SHAPE.tp - 1))).to_be_focused()
        look.live()
        is_as_loaded_now(site, look)
        print(
            f"{registered[0]} ranks registered in {took:.1f} s, {revision_of(look) - before} changes;"
            f" tasks of {sum(tasks):.0f} ms in all, {sum(task > 50 for task in tasks)} longer than 50 ms,"
            f" the longest {[round(task) for task in tasks[:5]]}"
        )
    assert registered[0] >= 0.8 * CHANGES_PER_SECOND * SECONDS / slowness()
    assert tasks[0] <= LONGEST_TASK_MS and sum(tasks) <= 1000 * took * BUSY_SHARE


def revision_of(look: Look) -> int:
    return int(look.page.locator("[data-live-revision]").inner_text())
