"""`--watch` of commands: look again whenever the ledger moves or some seconds went by, print what changed, until Ctrl+C."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from controlplane.ledger.tail import head

POLL_SECONDS = 0.5
AGAIN_SECONDS = 5.0
"""Time alone changes what is true: leases run out, deadlines pass."""

Print = Callable[[], None]


def watch(look: Callable[[float], tuple[Any, Print]], *, sleep: Callable[[float], None] = time.sleep) -> None:
    """`look(now)` gives what is compared (without ages, or every look would be news) and how it is printed."""
    shown: Any = None
    first = True
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            seen = head()
            content, show = look(time.time())
            if first or content != shown:
                show()
                shown, first = content, False
            until = time.monotonic() + AGAIN_SECONDS
            while time.monotonic() < until and head() == seen:
                sleep(POLL_SECONDS)
