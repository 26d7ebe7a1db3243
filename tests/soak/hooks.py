"""A pytest plugin: soak tests, wherever they stand, note numbers; what they found becomes docs/soak.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest

from tests.soak import report
from tests.soak.report import Item, share

Note = Callable[..., None]
_items: dict[str, Item] = {}
_variants: Counter[str] = Counter()
"""By test: of how many variants we know. All of them, since whole files are collected before any is left out."""


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """`note("restarts", "20, slowest 0.8 s")`: a number for the report, shown with the test."""

    def say(what: str, found: object) -> None:
        print(f"{what}: {found}")
        _item(request.node).numbers.append((what, str(found)))

    return say


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _variants.update(_test(item.nodeid) for item in items if item.get_closest_marker("soak"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    if item.get_closest_marker("soak"):
        found = _item(item)
        found.seconds += call.duration
        if outcome.failed:
            found.outcome = "FAILED"
        elif outcome.skipped and found.outcome is None:
            found.outcome = "skipped"
        elif outcome.when == "call" and found.outcome is None:
            found.outcome = "passed"
    return outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _items or hasattr(session.config, "workerinput"):
        return
    whole_files = not any("::" in asked for asked in session.config.args)
    if share() != 1 or not whole_files:
        print("\nnot written to docs/soak.md: a trial, or a part of a file, tells nothing of the whole")
        return
    by_test: dict[str, list[Item]] = defaultdict(list)
    for node, item in _items.items():
        by_test[_test(node)].append(item)
    when, commit = report.now(), report.commit()
    # Of a test that was begun and broken off (Ctrl-C, -k), nothing is said.
    rows = {
        test: report.row_of(items, of=_variants[test], when=when, commit=commit)
        for test, items in by_test.items()
        if len(items) == _variants[test] and all(item.outcome for item in items)
    }
    existing = set(_variants) if session.config.args == ["tests"] else set[str]()
    print(f"\nwritten: {report.write(rows, existing)}")


def _item(node: pytest.Item) -> Item:
    title, _, variant = node.name.removeprefix("test_").partition("[")
    return _items.setdefault(node.nodeid, Item(title.replace("_", " "), variant.rstrip("]")))


def _test(nodeid: str) -> str:
    return nodeid.partition("[")[0]
