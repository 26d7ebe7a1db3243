"""With whom an instance cannot work, as a sentence of its story."""

from __future__ import annotations

from collections import Counter

from controlplane.domain.errors import Refused

from . import compatibility
from .wording import listing

NAMED = 4
OTHER = {"prefill": "decode", "decode": "prefill"}


def told(name: str, role: str, *, now: float) -> list[str]:
    """Nothing while nothing is known that speaks against any pair. Call it inside a snapshot."""
    if role not in OTHER:
        return []
    try:
        found = compatibility.pairs(
            now=now, prefill=name if role == "prefill" else None, decode=name if role == "decode" else None
        )
    except Refused:
        return []
    against = [row for row in found.rows if row.verdict == "incompatible"]
    if not against:
        return []
    other = OTHER[role]
    names = [row.decode if role == "prefill" else row.prefill for row in against]
    fatal = [row.compatibility.why_not for row in against]
    why = Counter(finding.sentence for finding in fatal if finding is not None).most_common(1)[0][0]
    of = f"{len(against)} of {found.total} {other} instances" if len(against) > 1 else f"{other} {names[0]}"
    who = f" ({listing(names, limit=NAMED)})" if len(against) > 1 else ""
    return [f"It cannot work with {of}{who}: {why}."]
