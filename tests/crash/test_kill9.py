"""kill -9 at any moment loses nothing that was acknowledged, and leaves nothing half written."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.crash.audit import audit
from tests.crash.storm import Storm
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap

ROUNDS = 3


@pytest.mark.parametrize("listening", [False, True], ids=["nobody-behind", "listening"])
def test_what_was_acknowledged_survives_kill_9(
    backend: Backend, make_bootstrap: Callable[..., Bootstrap], listening: bool
):
    storm_and_kill(make_bootstrap(backend), backend, rounds=ROUNDS, seed=20, listening=listening)


def storm_and_kill(
    bootstrap: Bootstrap, backend: Backend, *, rounds: int, seed: int, listening: bool = False
) -> tuple[Storm, list[float]]:
    """Rounds of storm, kill -9, restart and audit on one database. The storm with its books, and seconds to restart."""
    storm = Storm(bootstrap.kv_port, bootstrap.engine_port, seed=seed, listening=listening)
    restarts = []
    try:
        bootstrap.start()
        for round_ in range(1, rounds + 1):
            asyncio.run(storm.blow(storm.random.uniform(0.3, 1.5), bootstrap.kill9))
            began = time.monotonic()
            bootstrap.start(within=10)
            restarts.append(time.monotonic() - began)
            wrong = storm.wrong + asyncio.run(audit(storm, backend))
            assert not wrong, f"round {round_} of seed {seed}: {len(wrong)} things are wrong:\n" + "\n".join(wrong[:20])
            assert bootstrap.child.exit_code is None
    finally:
        storm.close()
    assert storm.rooms.acknowledged > 50 * rounds, storm.answers
    assert storm.engines.acknowledged > 5 * rounds, storm.answers
    assert any(attempt.complete for attempt in storm.attempts["churn-1"]), storm.answers
    return storm, restarts
