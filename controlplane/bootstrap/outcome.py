"""What a handler comes to: an answer, or one that waits for its batch to be stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.protocol.replies import Reply


class Pending(NamedTuple):
    """`reply()` is the answer once `future` is done."""

    future: asyncio.Future[Any]
    reply: Callable[[], Reply]


Outcome = Reply | Pending
