"""What operators want of an instance or a DP group: one table says what leads where."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Intent(StrEnum):
    ENABLED = "enabled"
    CORDONED = "cordoned"
    DRAINING = "draining"
    RETIRED = "retired"


class Order(StrEnum):
    """What an operator can ask. Each names the intent it leads to, from wherever it leads there."""

    CORDON = "cordon"
    DRAIN = "drain"
    RESUME = "resume"
    """Back to enabled; a drain that is under way is cancelled."""
    HOLD = "hold"
    """Cancel the drain, but stay cordoned."""
    RETIRE = "retire"
    ADD = "add"


E, C, D, R = Intent.ENABLED, Intent.CORDONED, Intent.DRAINING, Intent.RETIRED

TRANSITIONS: Mapping[tuple[Intent, Order], Intent] = {
    (E, Order.CORDON): C,
    (E, Order.DRAIN): D,
    (E, Order.RETIRE): R,
    (C, Order.DRAIN): D,
    (C, Order.RESUME): E,
    (C, Order.RETIRE): R,
    (D, Order.RESUME): E,
    (D, Order.HOLD): C,
    (D, Order.RETIRE): R,
    (R, Order.ADD): E,
}

GOALS: Mapping[Order, Intent] = {
    Order.CORDON: C,
    Order.DRAIN: D,
    Order.RESUME: E,
    Order.HOLD: C,
    Order.RETIRE: R,
    Order.ADD: E,
}
"""Where each order leads: whoever is there already has nothing to change."""


def after(intent: Intent, order: Order) -> Intent | None:
    """The intent that an order leads to; the same one when nothing is to be changed, None when it cannot be given.

    >>> after(Intent.CORDONED, Order.DRAIN), after(Intent.ENABLED, Order.RESUME), after(Intent.RETIRED, Order.DRAIN)
    (<Intent.DRAINING: 'draining'>, <Intent.ENABLED: 'enabled'>, None)

    A draining instance that is to be cordoned is left alone: draining includes the cordon.
    """
    if intent is GOALS[order] or (intent, order) == (D, Order.CORDON):
        return intent
    return TRANSITIONS.get((intent, order))


def strictest(*intents: Intent) -> Intent:
    """What holds for a DP group: the instance's intent or its own, whichever wants less of it.

    >>> strictest(Intent.ENABLED, Intent.CORDONED)
    <Intent.CORDONED: 'cordoned'>
    """
    return max(intents, key=[E, C, D, R].index)
