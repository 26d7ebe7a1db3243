"""Rounds of storm, kill -9, restart and audit on one database."""

import asyncio
import time
from functools import partial

from tests.crash.audit import audit
from tests.crash.storm import Storm
from tests.support.plugin import Backend
from tests.support.processes import Bootstrap


def storm_and_kill(
    bootstrap: Bootstrap, backend: Backend, *, rounds: int, seed: int, listening: bool = False
) -> tuple[Storm, list[float]]:
    """The storm with its books, and the seconds of each restart."""
    storm = Storm(bootstrap.kv_port, bootstrap.engine_port, seed=seed, listening=listening)
    restarts = []
    try:
        bootstrap.start()
        for number in range(1, rounds + 1):
            asyncio.run(
                storm.blow(storm.random.uniform(0.2, 1.0), bootstrap.kill9, until=partial(enough, storm, number))
            )
            began = time.monotonic()
            bootstrap.start(within=40)
            restarts.append(time.monotonic() - began)
            wrong = storm.wrong + asyncio.run(audit(storm, backend))
            assert not wrong, f"round {number} of seed {seed}: {len(wrong)} things are wrong:\n" + "\n".join(wrong[:20])
            assert bootstrap.child.exit_code is None
    finally:
        storm.close()
    assert enough(storm, rounds), storm.answers
    return storm, restarts


def enough(storm: Storm, rounds: int) -> bool:
    """Whether so much was acknowledged that so many kills could lose something of every kind."""
    return (
        storm.rooms.acknowledged > 20 * rounds
        and storm.engines.acknowledged > 2 * rounds
        and any(attempt.complete for attempt in storm.attempts["churn-1"])
    )
