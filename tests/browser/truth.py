"""Whether a page that was open all the time shows what one shows that is opened now; and ranks that live meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from playwright.sync_api import expect

from controlplane.domain.topology import SharedFacts, Slot
from controlplane.simulation.payload import route_row
from controlplane.simulation.shape import Shape
from tests.browser.conftest import Site
from tests.browser.look import Look
from tests.support.ports import free_port
from tests.support.processes import Child, freeze

# What a person reads and a screen reader hears, part by part; without ages, and without what belongs to one visit.
SHOWN = """() => {
  const visit = ['open', 'tabindex', 'aria-selected'];
  const ours = (node, name) => visit.includes(name) || name === 'id' && node.id.startsWith('row-');
  const ages = /\\b\\d+(\\.\\d+)?[ \\u202f]?(ms|s|m|h|d|min)\\b/g;
  const write = node => {
    if (node.nodeType === 3) return node.textContent.replace(/\\s+/g, ' ');
    if (node.nodeType !== 1) return '';
    if (node.tagName === 'TIME') return '<time>';
    // Where things stand on a scale of time depends on now.
    if (node.matches('svg.tl, svg.spark')) return node.getAttribute('aria-label') ?? '';
    if ('newChip' in node.dataset) return '';
    const attributes = [...node.attributes].filter(one => !ours(node, one.name)).map(one => `${one.name}=${one.value}`);
    return `<${node.tagName} ${attributes.sort().join(' ')}>${[...node.childNodes].map(write).join('')}</>`;
  };
  return Object.fromEntries([...document.querySelectorAll('[data-part]')].map(part =>
    [part.dataset.part, write(part).replace(ages, '…').replace(/ +/g, ' ').replace(/> </g, '><')]));
}"""
HIDE = """hidden => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
PATIENCE_SECONDS = 30.0
MARK = "window.opened = true"


def let_in(look: Look) -> None:
    """Press "3 new" wherever it stands."""
    look.page.evaluate("for (const one of document.querySelectorAll('[data-new-chip] button')) one.click()")


def said(look: Look, text: str, *, seconds: float = 20) -> None:
    """What is new may wait behind a chip, so that no row jumps; a click lets it in."""
    end = time.monotonic() + seconds
    while text not in look.page.locator("#main").inner_text():
        assert time.monotonic() < end, look.page.locator("#main").inner_text()
        let_in(look)
        look.page.wait_for_timeout(50)


def pill_says(look: Look, state: str, *, seconds: float = 30) -> None:
    expect(look.page.locator("#live")).to_have_attribute("data-state", state, timeout=1000 * seconds)


def was_never_reloaded(look: Look) -> None:
    assert look.page.evaluate("window.opened"), "the page was loaded anew"


def is_as_loaded_now(site: Site, look: Look, *, who: str = "olga") -> None:
    """Open the same address beside it, wait until both show the same, and close the one beside it."""
    fresh = site.open(look.page.url.removeprefix(site.url), who=who)
    fresh.live()
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        old, new = look.page.evaluate(SHOWN), fresh.page.evaluate(SHOWN)
        if old == new and old:
            break
        if time.monotonic() > end:
            raise AssertionError("\n".join(_differences(old, new)) or "the page has no parts")
        let_in(look)
        look.page.wait_for_timeout(500)
    close(site, fresh)


def close(site: Site, look: Look) -> None:
    """Close this page alone; it must have been well."""
    context = look.page.context
    wrong = Look.problems_of(look.page)
    site.contexts.remove(context)
    context.close()
    assert not wrong, "\n".join(wrong)


def _differences(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for name in sorted(set(old) | set(new)):
        was, now = old.get(name, ""), new.get(name, "")
        if was != now:
            at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
            yield f"{name} at {at}:\n  open:  …{was[max(0, at - 200) : at + 200]}\n  fresh: …{now[max(0, at - 200) : at + 200]}"


TWO = Shape(tp=2)
FACTS = SharedFacts(page_size=64, kv_cache_dtype="auto")


def registers(site: Site, instance: str, *slots: Slot, shape: Shape = TWO, ports: Iterable[int] = ()) -> None:
    """Ranks that register and are nobody: nothing listens at their addresses."""
    given = iter(ports)
    url = f"http://127.0.0.1:{site.up.ports['PDCP_KV_PORT']}/i/{instance}/route"
    with httpx.Client(timeout=30, trust_env=False) as client:
        for slot in slots or (Slot(0, 0, 0, 0),):
            port = next(given, None) or free_port()
            row = route_row(shape, slot, FACTS, ip="127.0.0.1", port=port, http_port=30_000)
            answer = client.put(url, json=row)
            assert answer.status_code == 200, answer.text


@contextmanager
def kept_down(site: Site, words: str) -> Iterator[psutil.Process]:
    """Kill one of the processes; while the block runs, nobody starts it again."""
    child = site.up.child(words)
    supervisor = site.up.process.pid
    freeze(supervisor)
    try:
        child.kill()
        yield child
    finally:
        os.kill(supervisor, signal.SIGCONT)


@contextmanager
def living(site: Site, instance: str, log: Path, *options: str) -> Iterator[Child]:
    """Ranks that listen, greet and register, until the block ends."""
    ports = site.up.ports
    where = [
        *("--instance", instance),
        *("--url", f"http://127.0.0.1:{ports['PDCP_KV_PORT']}"),
        *("--engine-url", f"http://127.0.0.1:{ports['PDCP_ENGINE_INFO_PORT']}"),
    ]
    child = Child([sys.executable, "manage.py", "simulate", *where, "--json", *options], env=site.up.env, log=log)
    try:
        child.wait_for_line("ready", timeout=60)
        yield child
    finally:
        child.terminate()
