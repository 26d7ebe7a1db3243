"""Relays that a test makes, and that end with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.workers.relay.inside import Inside, Make


@pytest.fixture
async def inside(tmp_path: Path) -> AsyncIterator[Make]:
    """`inside()` -> one in this process; again after `close()`: on the same data."""
    made: list[Inside] = []

    def make(now: float = 1_000_000.0, **options: Any) -> Inside:
        made.append(Inside(tmp_path / "relay", now=now).open(**options))
        return made[-1]

    yield make
    for one in made:
        await one.close()
