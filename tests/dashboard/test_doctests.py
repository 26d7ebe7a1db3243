"""The examples that stand in presenters and tags are true."""

import doctest
import importlib
import pkgutil

import pytest

import dashboard.presenters
import dashboard.templatetags

PACKAGES = (dashboard.presenters, dashboard.templatetags)
MODULES = sorted(m.name for package in PACKAGES for m in pkgutil.iter_modules(package.__path__, f"{package.__name__}."))


@pytest.mark.parametrize("name", MODULES)
def test_its_examples_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
