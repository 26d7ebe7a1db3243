"""Fixtures that every test may use."""

pytest_plugins = ["tests.support.plugin", "tests.support.again", "tests.support.order", "tests.soak.hooks"]
