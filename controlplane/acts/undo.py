"""What takes back what was just done, while nothing else has changed: cordon and uncordon, drain and cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .cases import Result, seen_of
from .targets import Standing, look

OPPOSITE = {"cordon": "uncordon", "uncordon": "cordon", "drain": "cancel-drain"}
BEFORE = {"cordon": {"enabled"}, "uncordon": {"cordoned"}, "drain": {"enabled", "cordoned"}}
"""The intents that the opposite leads back to. Of a drain that uncordon cancelled, the beginning is over."""

MOST_REASON = 200


def undoing(name: str, before: Sequence[Standing], results: Sequence[Result], reason: str) -> dict[str, Any] | None:
    """The action and the fields of its form; None when there is no way back that ends where it began."""
    if name not in OPPOSITE:
        return None
    changed = {result.target for result in results if result.did is not None and result.did.changed}
    intents = {standing.intent for standing in before if standing.target in changed}
    if len(intents) != 1 or not intents <= BEFORE[name]:
        return None
    targets = [standing.target for standing in before if standing.target in changed]
    after = look(targets)
    left_at = {result.target.name: result.did.version for result in results if result.did is not None}
    if any(standing.version != left_at[standing.target.name] for standing in after):
        # Somebody was there within this moment: theirs is not to be undone.
        return None
    fields: dict[str, Any] = {
        "on": [str(target) for target in targets],
        "count": str(len(targets)),
        "seen": seen_of(after),
        "reason": f"undo of {name}: {reason[:MOST_REASON]}",
        "undoes": name,
    }
    if name == "drain":
        fields["to"] = intents.pop()
    return {"act": OPPOSITE[name], "fields": fields}
