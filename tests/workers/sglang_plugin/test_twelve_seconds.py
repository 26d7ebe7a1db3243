"""The same outage as long as SGLang has patience for: 12 s."""

import pytest

from tests.workers.sglang_plugin.test_real_ranks import (
    story,
    test_a_rank_that_gave_up_is_registered_by_the_plugin_when_the_control_plane_is_back,
    test_a_rank_that_registers_with_us_alone_starts_at_once_however_long_we_are_away,
)

__all__ = [
    "story",
    "test_a_rank_that_gave_up_is_registered_by_the_plugin_when_the_control_plane_is_back",
    "test_a_rank_that_registers_with_us_alone_starts_at_once_however_long_we_are_away",
]

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def hurry() -> float:
    return 1.0
