"""Twenty rounds of storm and kill -9 on each database."""

from collections.abc import Callable

import pytest

from tests.crash.rounds import storm_and_kill
from tests.soak.hooks import Note
from tests.soak.report import share
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap

pytestmark = pytest.mark.soak
ROUNDS = 20


@pytest.mark.parametrize("listening", [False, True], ids=["nobody-behind", "listening"])
def test_twenty_kills_in_a_storm_lose_nothing(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap], listening: bool, note: Note
):
    rounds = max(2, round(ROUNDS * share()))
    storm, restarts = storm_and_kill(make_bootstrap(backend), backend, rounds=rounds, seed=2026, listening=listening)
    note("kills", rounds)
    note(
        "seconds from start to serving",
        f"median {sorted(restarts)[len(restarts) // 2]:.2f}, slowest {max(restarts):.2f}",
    )
    registered = sum(len(attempt.acknowledged) for attempts in storm.attempts.values() for attempt in attempts)
    note(
        "acknowledged",
        f"{registered} ranks, {storm.rooms.acknowledged} rooms, {storm.engines.acknowledged} dictionaries",
    )
