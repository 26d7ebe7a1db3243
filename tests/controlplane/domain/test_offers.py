"""Why an action is off: what a button says must be what the command would say, and never more than that."""

import pytest

from controlplane.acts.table import ACTS
from controlplane.domain.drain import Progress
from controlplane.domain.intent import Intent
from controlplane.domain.offers import WHY_NOT, Stand, why_not


def test_every_action_is_known():
    assert set(WHY_NOT) == set(ACTS)


@pytest.mark.parametrize(
    ("act", "stand", "why"),
    [
        ("cordon", Stand("a", Intent.ENABLED), ""),
        ("cordon", Stand("a", Intent.CORDONED), "it is cordoned already"),
        ("cordon", Stand("a", Intent.DRAINING), "it is draining, which includes the cordon"),
        ("uncordon", Stand("a", Intent.ENABLED), "it is enabled"),
        ("uncordon", Stand("a", Intent.CORDONED), ""),
        ("uncordon", Stand("a", Intent.DRAINING), ""),
        ("drain", Stand("a", Intent.CORDONED), ""),
        ("drain", Stand("a", Intent.DRAINING, drain=Progress.OVERDUE), "it is draining already, overdue"),
        # After a forced end it is draining still, and can be watched again.
        ("drain", Stand("a", Intent.DRAINING), ""),
        ("cancel-drain", Stand("a", Intent.CORDONED), "it is not draining, it is cordoned"),
        ("cancel-drain", Stand("a", Intent.DRAINING), ""),
        ("force-drain", Stand("a", Intent.DRAINING), "no drain is under way"),
        ("force-drain", Stand("a", Intent.DRAINING, drain=Progress.WAITING), ""),
        (
            "force-drain",
            Stand("a", Intent.DRAINING, drain=Progress.DRAINED),
            "it is drained, there is nothing to be forced",
        ),
        ("evict", Stand("a", Intent.ENABLED), "nobody is registered there"),
        ("evict", Stand("a", Intent.ENABLED, registered=1), ""),
        ("supersede", Stand("a", Intent.ENABLED), "there is no candidate launch"),
        ("supersede", Stand("a", Intent.ENABLED, candidate=(3, 4)), "the candidate launch has 3 of 4 ranks"),
        ("supersede", Stand("a", Intent.ENABLED, candidate=(4, 4)), ""),
        ("reregister", Stand("a", Intent.ENABLED), ""),
        ("readmit", Stand("a", Intent.ENABLED), ""),
        ("retire", Stand("a", Intent.DRAINING, drain=Progress.WAITING), ""),
        ("retire", Stand("a", Intent.RETIRED, retired=True), "a is retired"),
        ("evict", Stand("a", Intent.RETIRED, retired=True, registered=2), ""),
        ("purge", Stand("a", Intent.RETIRED, retired=True), ""),
        ("purge", Stand("a", Intent.ENABLED), "it is not retired"),
    ],
)
def test_why_it_cannot_be_asked_for(act, stand, why):
    assert why_not(act, stand) == why
