"""What all sockets of one event loop share."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Shared = TypeVar("Shared")


def one_per_loop(make: Callable[[], Shared]) -> Callable[[], Shared]:
    """`make()` for the running event loop, made once."""
    made: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Shared] = weakref.WeakKeyDictionary()

    @wraps(make)
    def shared() -> Shared:
        loop = asyncio.get_running_loop()
        if loop not in made:
            made[loop] = make()
        return made[loop]

    return shared
