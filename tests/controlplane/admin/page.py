"""What a test reads off a page: its text, links, hidden fields and buttons."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from typing import Any

from django.db import connections
from django.http import HttpResponse
from django.test.utils import CaptureQueriesContext

VOID = {"input", "link", "meta", "br", "path", "symbol"}


class Page(HTMLParser):
    def __init__(self, response: HttpResponse) -> None:
        super().__init__()
        self.status = response.status_code
        self.html = response.content.decode()
        self.links: dict[str, str] = {}
        self.fields: dict[str, list[str]] = defaultdict(list)
        self.inline: list[str] = []
        """Whatever a strict content security policy would not let run or apply."""
        self.words: list[str] = []
        self._tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(self.html)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def form(self, **more: Any) -> dict[str, Any]:
        """The hidden fields of the action page as a browser would send them, and `more`."""
        kept = {name: values for name, values in self.fields.items() if name != "csrfmiddlewaretoken"}
        return {**kept, **more}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [f"<{tag} {name}>" for name in given if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(f"<{tag}>")
        if (given.get("href") or "").startswith("javascript:"):
            self.inline.append("javascript:")
        if tag == "input" and given.get("type") == "hidden" and given.get("name"):
            self.fields[str(given["name"])].append(given.get("value") or "")
        if tag not in VOID:
            self._tags.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        while self._tags and self._tags.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._tags and self._tags[-1][0] in ("script", "style"):
            return
        self.words.append(data)
        for tag, given in self._tags:
            if tag == "a" and data.strip():
                self.links[data.strip()] = given.get("href") or ""


@contextmanager
def counted_queries():
    """How many statements were run on all aliases, as a list of them once the block has ended."""
    ran: list[str] = []
    with ExitStack() as stack:
        contexts = [stack.enter_context(CaptureQueriesContext(connections[alias])) for alias in connections]
        yield ran
    ran += [query["sql"] for context in contexts for query in context.captured_queries]
