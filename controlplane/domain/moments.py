"""Moments in memories that outlive a process: what is known did not happen later than now, whatever a clock said then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

Known = TypeVar("Known")


def set_right(known: Known, names: Iterable[str], now: float) -> Known:
    """A frozen value whose moments `names` (epoch seconds or None) are not ahead of `now`.

    Where one is, the clock has been set back since it was written. How old it is nobody knows any more; from now on it ages,
    where it would seem new until the clock has caught up.
    """
    ahead: dict[str, Any] = {name: now for name in names if (at := getattr(known, name)) is not None and at > now}
    return replace(known, **ahead) if ahead else known  # type: ignore[type-var]
