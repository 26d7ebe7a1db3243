"""Why an action cannot be asked for as things stand: said beside its button. The command decides again, and finally."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .drain import Progress
from .intent import Intent, Order, after


@dataclass(frozen=True, slots=True)
class Stand:
    """How an instance, a DP group or a rank stands. `intent` is its own; `drain` the progress of its open drain, if any.

    `registered`: ranks that count; `candidate`: registered and expected of the candidate launch, None without one.
    """

    name: str
    intent: Intent
    retired: bool = False
    drain: Progress | None = None
    registered: int = 0
    candidate: tuple[int, int] | None = None


def why_not(act: str, stand: Stand) -> str:
    """The reason, as the end of a sentence; blank when it can be asked for.

    >>> why_not("cordon", Stand("a", Intent.CORDONED)), why_not("cordon", Stand("a", Intent.ENABLED))
    ('it is cordoned already', '')
    """
    if stand.retired and act not in ("evict", "purge"):
        return f"{stand.name} is retired"
    return WHY_NOT[act](stand)


def _cordon(stand: Stand) -> str:
    if after(stand.intent, Order.CORDON) is not stand.intent:
        return ""
    return "it is cordoned already" if stand.intent is Intent.CORDONED else "it is draining, which includes the cordon"


def _uncordon(stand: Stand) -> str:
    return "it is enabled" if stand.intent is Intent.ENABLED else ""


def _drain(stand: Stand) -> str:
    return f"it is draining already, {stand.drain}" if stand.drain is not None else ""


def _cancel(stand: Stand) -> str:
    return "" if stand.intent is Intent.DRAINING else f"it is not draining, it is {stand.intent}"


def _force(stand: Stand) -> str:
    if stand.drain is None:
        return "no drain is under way"
    return "it is drained, there is nothing to be forced" if stand.drain is Progress.DRAINED else ""


def _evict(stand: Stand) -> str:
    return "" if stand.registered else "nobody is registered there"


def _supersede(stand: Stand) -> str:
    if stand.candidate is None:
        return "there is no candidate launch"
    registered, expected = stand.candidate
    return f"the candidate launch has {registered} of {expected} ranks" if registered < expected else ""


def _purge(stand: Stand) -> str:
    return "" if stand.retired else "it is not retired"


def _never(stand: Stand) -> str:
    return ""


WHY_NOT: Mapping[str, Callable[[Stand], str]] = {
    "cordon": _cordon,
    "uncordon": _uncordon,
    "drain": _drain,
    "cancel-drain": _cancel,
    "force-drain": _force,
    "evict": _evict,
    "supersede": _supersede,
    "reregister": _never,
    "readmit": _never,
    "suspect": _never,
    "retire": _never,
    "purge": _purge,
}
