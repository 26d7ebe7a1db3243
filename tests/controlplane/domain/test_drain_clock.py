"""A drain under a clock that is set back: it begins its proof anew, and is not held up until that clock has caught up."""

from dataclasses import replace

import pytest

from controlplane.domain.admission import Cordon, Router, Selectors, look
from controlplane.domain.drain import Memory, Progress
from tests.controlplane.domain.test_drain import LEDGER, Story

P = Progress


@pytest.mark.parametrize("looks", [1, 2])
def test_a_clock_that_is_set_back_delays_a_drain_by_no_more_than_a_proof_takes(looks):
    story = Story()
    story.routers = [Router("r", False, True, story.now)]
    story.look(looks)
    story.now -= 600.0
    # Once more from the beginning: everybody has stopped as of the first look since, and two zeros after it.
    assert [story.look().state.progress for _ in range(3)] == [P.EMPTY, P.EMPTY, P.DRAINED]
    assert Memory.read(story.state.memory.data()) == story.state.memory


def test_what_was_dated_before_the_clock_was_set_back_proves_nothing_after_it():
    story = Story()
    story.look(1)
    story.now -= 600.0
    late = story.now + 600.0
    seen = Selectors(LEDGER, 100, story.gateways, [Router("r", False, True, late)])
    assert "unseen r" in look(Cordon(LEDGER, 50, story.now), seen, now=story.now).unsure
    # A gateway that begins anew since must have read the ledger, as ever.
    assert seen.have_stood(story.now, story.now) and not replace(
        seen, gateways=[replace(story.gateways[0], joined_at=story.now)]
    ).have_stood(story.now, story.now)
