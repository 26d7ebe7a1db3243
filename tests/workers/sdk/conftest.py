"""Servers that do as they are told, and clocks that do not run by themselves."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.workers.sdk.server import Answer, Server, serving


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """`serve(answer)` -> a Server of this test alone."""
    with ExitStack() as stack:

        def start(answer: Answer, **where: Any) -> Server:
            return stack.enter_context(serving(answer, **where))

        yield start
