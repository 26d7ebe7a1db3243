"""A real Chromium against the real processes: `manage.py up` once for all tests of a file, and people who are signed in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.look import SIZES, Look
from tests.supervisor.conftest import Up
from tests.support.people import session_keys
from tests.support.processes import manage

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
]

# As long as a busy machine may take; what is there sooner is not waited for.
PATIENCE_MS = 20_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium; nothing is downloaded.

    Of a file, not of the session: while Playwright runs, its event loop runs in this thread, and no test of ours that is
    a coroutine could run after it.
    """
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        # A green CI run that never opened a page would be a lie.
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield made
        made.close()


@dataclass(slots=True)
class Site:
    """A running control plane, its people and its browser. `open` gives a page of somebody who is signed in."""

    up: Up
    browser: Browser
    keys: dict[str, str]
    contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.up.web

    def open(
        self,
        path: str = "/",
        *,
        who: str = "olga",
        size: str = "wide",
        theme: str = "light",
        before: Callable[[Page], None] | None = None,
        **options: Any,
    ) -> Look:
        """`size`: a key of SIZES; `theme`: light or dark, as the browser prefers. Problems of the page fail the test.

        `before`: what is done to the page before it goes anywhere.
        """
        context = self.browser.new_context(
            base_url=self.url,
            viewport=SIZES[size],
            color_scheme=theme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            **options,
        )
        context.set_default_timeout(PATIENCE_MS)
        self.contexts.append(context)
        if who:
            context.add_cookies([{"name": "sessionid", "value": self.keys[who], "url": self.url}])
        page: Page = context.new_page()
        look = Look(page)
        if before is not None:
            before(page)
        look.go(path)
        return look

    def manage(self, *arguments: str) -> str:
        """What a command of ours says on this control plane."""
        done = manage(*arguments, env=self.up.env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def simulate(self, instance: str, *options: str) -> None:
        """Register ranks of `instance` that nobody listens for, or with what `manage.py simulate` takes."""
        ports = self.up.ports
        self.manage(
            "simulate",
            "--instance",
            instance,
            "--url",
            f"http://127.0.0.1:{ports['PDCP_KV_PORT']}",
            "--engine-url",
            f"http://127.0.0.1:{ports['PDCP_ENGINE_INFO_PORT']}",
            "--once",
            *options,
        )

    def close_pages(self) -> list[str]:
        """Close what was opened; returns what went wrong in it."""
        wrong = [problem for context in self.contexts for page in context.pages for problem in Look.problems_of(page)]
        for context in self.contexts:
            context.close()
        self.contexts.clear()
        return wrong


@pytest.fixture(scope="module")
def make_site(
    browser: Browser, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Site]]:
    """`make_site(PDCP_X=…)` -> a Site of its own, for tests that restart or fill it."""
    made: list[Site] = []

    def make(**knobs: object) -> Site:
        data: Path = tmp_path_factory.mktemp("site") / "data"
        shutil.copytree(sqlite_template, data)
        up = Up(data, **knobs).wait_ready()
        made.append(Site(up, browser, session_keys(up.env)))
        return made[-1]

    yield make
    for site in made:
        site.close_pages()
        site.up.close()
        print(f"--- manage.py up ---\n{site.up.output[-10000:]}")


@pytest.fixture(scope="module")
def running(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
def site(running: Site) -> Iterator[Site]:
    """The control plane that the tests of a file share; each test's pages are closed, and must have been well."""
    yield running
    wrong = running.close_pages()
    assert not wrong, "\n".join(wrong)
