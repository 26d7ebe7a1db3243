"""What an engine held is said of now only where it still tells it."""

from dataclasses import replace

from controlplane.queries.engine_health import STALE_SECONDS, EngineRow

NOW = 10_000.0


def test_a_load_that_is_told_no_more_says_nothing_of_now():
    row = EngineRow(at="http://e", state="up", load={"held_up_since": 1}, asked_at=NOW, load_at=NOW - 10)
    assert row.load_told == {"held_up_since": 1}
    assert replace(row, load_at=NOW - STALE_SECONDS - 1).load_told == {} == replace(row, load_at=None).load_told
    # Who is asked once an hour tells it as rarely.
    assert replace(row, asked_at=NOW - 3000, load_at=NOW - 3000).load_told == row.load
