"""In CI a test that drives whole processes has a second go; what failed the first time is printed, and is to be mended."""

import os

import pytest

DRIVING = {
    "agent",
    "browser",
    "compat",
    "crash",
    "demo",
    "detection",
    "explain",
    "live",
    "messaging",
    "outage",
    "relay",
    "routers",
    "sglang_plugin",
    "supervisor",
    "transfer",
}
"""Folders whose tests start browsers, engines, routers or all of our processes on a machine that others use too."""

_failed_first: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("CI"):
        return
    for item in items:
        if DRIVING & set(item.path.parts) and not item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome == "rerun":  # type: ignore[comparison-overlap]
        _failed_first[report.nodeid] = report.longreprtext


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for node, text in _failed_first.items():
        terminalreporter.section(f"failed at the first go, mend it: {node}", sep="!")
        terminalreporter.line(text)
