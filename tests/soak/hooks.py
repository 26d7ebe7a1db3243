"""A pytest plugin: soak tests, wherever they stand, note numbers; what they found becomes docs/soak.md."""

from collections.abc import Callable, Iterator

import pytest

from tests.soak.report import Report, share

Note = Callable[..., None]
_report = Report()


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """`note("restarts", "20, slowest 0.8 s")`: a number for the report, shown with the test."""

    def say(what: str, found: object) -> None:
        print(f"{what}: {found}")
        _report.item(request.node.nodeid).numbers.append((what, str(found)))

    return say


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    if item.get_closest_marker("soak"):
        found = _report.item(item.nodeid)
        found.title = _sentence(item)
        found.seconds += call.duration
        if outcome.failed:
            found.outcome = "FAILED"
        elif outcome.skipped and found.outcome is None:
            found.outcome = "skipped"
        elif outcome.when == "call" and found.outcome is None:
            found.outcome = "passed"
    return outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _report.items:
        return
    if _is_whole(session.config):
        print(f"\nwritten: {_report.write()}")
    else:
        print("\nnot written to docs/soak.md: this was a part of the soak")


def _is_whole(config: pytest.Config) -> bool:
    """A report tells of one whole run: a part, or a trial, must not take its place."""
    chosen = config.getoption("keyword") or config.getoption("lf") or config.getoption("deselect")
    return config.args == ["tests"] and not chosen and share() == 1


def _sentence(item: pytest.Item) -> str:
    name, bracket, parameters = item.name.removeprefix("test_").partition("[")
    return name.replace("_", " ") + (f" ({parameters.rstrip(']')})" if bracket else "")
