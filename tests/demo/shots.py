"""Pictures of the demo's pages for docs/screens, taken with SCREENS=1 (`make screens`) only: a browser costs seconds."""

from __future__ import annotations

import os
import shutil
from types import TracebackType

import httpx
from playwright.async_api import Browser, async_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.look import SIZES, keep


class Shots:
    """`take` opens a page as whoever `http` is signed in as; without SCREENS=1 it does nothing."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._browser: Browser | None = None

    async def __aenter__(self) -> Shots:
        if os.environ.get("SCREENS"):
            self._playwright = await async_playwright().start()
            path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
            self._browser = await self._playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._browser is not None:
            await self._browser.close()
            await self._playwright.stop()

    async def take(self, name: str, path: str, *, size: str = "wide", theme: str = "light") -> None:
        if self._browser is None:
            return
        url = str(self._http.base_url)
        context = await self._browser.new_context(
            base_url=url,
            viewport=SIZES[size],  # type: ignore[arg-type]
            color_scheme=theme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        cookies = [{"name": one.name, "value": one.value or "", "url": url} for one in self._http.cookies.jar]
        await context.add_cookies(cookies)  # type: ignore[arg-type]
        page = await context.new_page()
        await page.goto(path)
        await page.locator('#live[data-state="live"]').wait_for()
        keep(f"{name}-{'400-' if size == 'narrow' else ''}{theme}", await page.screenshot(animations="disabled"))
        await context.close()

    async def everywhere(self, name: str, path: str) -> None:
        """Wide and narrow, light and dark."""
        for size in ("wide", "narrow"):
            for theme in ("light", "dark"):
                await self.take(name, path, size=size, theme=theme)
