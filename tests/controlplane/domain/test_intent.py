"""Every intent under every order."""

import itertools

import pytest

from controlplane.domain.intent import GOALS, TRANSITIONS, Intent, Order, after, strictest

E, C, D, R = Intent.ENABLED, Intent.CORDONED, Intent.DRAINING, Intent.RETIRED
# Columns in the order of Order: cordon, drain, resume, hold, retire, add. None: cannot be given.
EXPECTED = {
    E: (C, D, E, None, R, E),
    C: (C, D, E, C, R, None),
    D: (D, D, E, C, R, None),
    R: (None, None, None, None, R, E),
}


@pytest.mark.parametrize("intent", list(Intent))
def test_each_order_leads_where_it_says_or_cannot_be_given(intent):
    assert tuple(after(intent, order) for order in Order) == EXPECTED[intent]


def test_the_table_and_the_goals_agree_and_nothing_leads_out_of_retired_but_adding_it_again():
    assert all(GOALS[order] is goal for (_, order), goal in TRANSITIONS.items())
    assert {order for (intent, order) in TRANSITIONS if intent is R} == {Order.ADD}


def test_of_two_intents_the_one_that_wants_less_holds():
    ranks = [E, C, D, R]
    for one, other in itertools.product(ranks, ranks):
        assert strictest(one, other) is max(one, other, key=ranks.index)
