"""One open page, looked at as a person would: what it says, whether it is accessible, how it looks."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Locator, Page, expect

from tests.support.processes import ROOT

SCREENS = ROOT / "docs" / "screens"
SIZES = {
    "wide": {"width": 1440, "height": 900},
    "narrow": {"width": 400, "height": 860},
}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
MOST_BYTES = 150_000
_PROBLEMS: dict[int, list[str]] = {}


def keep(name: str, taken: bytes) -> Path:
    """A screenshot (PNG), with as few colours as keep it below the size that is allowed in docs/screens.

    It is kept there when it is new, and anew with SCREENS=1 (`make screens`): every run has other times of day.
    """
    from PIL import Image

    SCREENS.mkdir(parents=True, exist_ok=True)
    path = SCREENS / f"{name}.png"
    shot = Image.open(io.BytesIO(taken)).convert("RGB")
    for colours in (256, 128, 64, 32):
        kept = io.BytesIO()
        shot.quantize(colours, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
        if len(kept.getvalue()) <= MOST_BYTES:
            break
    assert len(kept.getvalue()) <= MOST_BYTES, f"{name}: {len(kept.getvalue())} bytes"
    if not path.exists() or os.environ.get("SCREENS"):
        path.write_bytes(kept.getvalue())
    return path


class Look:
    """A page and what went wrong in it: errors of scripts, of the console, and refused by the content policy."""

    def __init__(self, page: Page) -> None:
        self.page = page
        problems = _PROBLEMS.setdefault(id(page), [])
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self._heard(message, problems))

    @staticmethod
    def problems_of(page: Page) -> list[str]:
        return _PROBLEMS.pop(id(page), [])

    def go(self, path: str, *, status: int = 200) -> None:
        answer = self.page.goto(path)
        assert answer is not None and answer.status == status, f"{path}: {answer and answer.status}"

    def live(self, word: str = "live") -> None:
        """Wait until the pill says so."""
        expect(self.page.locator("#live")).to_have_attribute("data-state", word)

    def part(self, name: str) -> Locator:
        return self.page.locator(f"#part-{name}")

    def check(self, **context: Any) -> None:
        """No violation of WCAG 2.2 AA or best practice, and nothing that makes the page scroll sideways."""
        found = Axe().run(self.page, options={"runOnly": RULES}, **context)
        said = [
            f"{one['id']}: {one['help']}: " + "; ".join(str(node["html"])[:200] for node in one["nodes"][:4])
            for one in found.response["violations"]
        ]
        assert not said, f"{self.page.url}\n" + "\n".join(said)
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{self.page.url} is {wide} px wider than its window"

    def shoot(self, name: str) -> Path:
        """How it looks, kept in docs/screens."""
        return keep(name, self.page.screenshot(animations="disabled", caret="hide"))

    def _heard(self, message: ConsoleMessage, problems: list[str]) -> None:
        # A server that a test stops is no fault of the page.
        if (
            message.type == "error"
            and "Failed to load resource" not in message.text
            and "WebSocket" not in message.text
        ):
            problems.append(f"{self.page.url}: {message.text}")
