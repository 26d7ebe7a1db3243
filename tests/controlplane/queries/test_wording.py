"""The examples in the docstrings hold."""

import doctest

import pytest

from controlplane.management import operating
from controlplane.management.commands import request
from controlplane.queries import wording


@pytest.mark.parametrize("module", [wording, operating, request])
def test_examples_hold(module):
    assert doctest.testmod(module).failed == 0
