"""What took the place of a launch that ended."""

from __future__ import annotations

import re

REPLACED = re.compile(r"replaced by launch (\d+)")


def replaced_by(ended_reason: str) -> int | None:
    """The launch that took the place of one that ended so; None when none did.

    >>> replaced_by("replaced by launch 12"), replaced_by("no rank of it answers")
    (12, None)
    """
    found = REPLACED.match(ended_reason)
    return int(found[1]) if found is not None else None
