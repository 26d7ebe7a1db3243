"""Series of samples: rates and peaks, gaps where nobody led, bounded however long the time."""

import pytest

from controlplane.databases import TRAFFIC
from controlplane.domain.errors import Refused
from controlplane.models import Sample
from controlplane.queries.series import MOST_POINTS, NAMES, recent, series
from tests.dashboard.conftest import queries

NOON = 1_800_000_000.0
assert NOON % 3600 == 0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def keep(at: float, *, seconds: float = 10.0, **numbers: float | None) -> None:
    zero = dict.fromkeys(field.name for field in Sample._meta.concrete_fields if field.name not in ("id", "at"))
    given = {name: 0 if not name.endswith("_ms") else None for name in zero} | {"seconds": seconds} | numbers
    Sample.objects.using(TRAFFIC).create(at=at, **given)


def test_a_counter_is_a_rate_a_second_and_a_gauge_its_peak():
    for n in range(6):
        # Stored a moment after the ten seconds that they are about.
        keep(NOON + 10 * (n + 1) + 0.01, bindings=100 * n, rooms=n if n != 3 else 50, probe_p99_ms=1.5 * n)
    fine = series(["bindings", "rooms", "probe_p99_ms"], since=NOON, until=NOON + 60)
    assert (fine.since, fine.step, fine.count) == (NOON, 10.0, 6)
    assert fine.values["bindings"] == (0, 10, 20, 30, 40, 50)
    assert fine.values["rooms"] == (0, 1, 2, 50, 4, 5)
    assert fine.sampled_at == NOON + 60.01
    minute = series(["bindings", "rooms", "probe_p99_ms"], since=NOON, until=NOON + 60, points=1)
    assert dict(minute.values.items()) == {
        "bindings": (25.0,),
        "rooms": (50.0,),
        "probe_p99_ms": (7.5,),
    }


def test_where_nobody_led_or_nothing_was_asked_there_is_no_number():
    keep(NOON + 10, rooms=5, probe_p50_ms=None)
    keep(NOON + 40, rooms=7, probe_p50_ms=0.4)
    rows = series(["lookups", "rooms", "probe_p50_ms"], since=NOON, until=NOON + 40)
    assert rows.values["lookups"] == (0, None, None, 0)
    assert rows.values["rooms"] == (5, None, None, 7)
    assert rows.values["probe_p50_ms"] == (None, None, None, 0.4)
    nothing = series(["rooms"], since=NOON - 600, until=NOON - 300)
    assert set(nothing.values["rooms"]) == {None} and nothing.sampled_at is None


def test_a_sample_of_a_longer_time_counts_for_its_rate_not_for_its_length():
    # A write that failed: the next sample is about twenty seconds.
    keep(NOON + 10, lookups=100)
    keep(NOON + 30, seconds=20.0, lookups=400)
    assert series(["lookups"], since=NOON, until=NOON + 60, points=1).values["lookups"] == (500 / 30,)


def test_points_stay_where_they_are_as_time_goes_on():
    for n in range(90):
        keep(NOON + 10 * (n + 1) + 0.01, lookups=n)
    early = series(["lookups"], since=NOON, until=NOON + 600, points=32)
    later = series(["lookups"], since=NOON + 7, until=NOON + 607, points=32)
    assert early.step == later.step and early.since == later.since
    assert early.values["lookups"][1:20] == later.values["lookups"][1:20]


@pytest.mark.parametrize("seconds", [60, 900, 3600, 21_600, 86_400, 90_000])
@pytest.mark.parametrize("points", [1, 24, 32, MOST_POINTS])
def test_there_are_never_more_points_than_asked_for(seconds, points):
    if seconds > points * 3600:
        with pytest.raises(Refused, match="not longer than what is kept"):
            series(["rooms"], since=NOON + 3, until=NOON + 3 + seconds, points=points)
        return
    rows = series(["rooms"], since=NOON + 3, until=NOON + 3 + seconds, points=points)
    assert rows.count <= points or rows.step == 3600.0
    assert rows.since <= NOON + 3 and rows.at(rows.count) >= NOON + 3 + seconds


def test_every_series_together_is_one_query():
    keep(NOON + 10)
    with queries() as asked:
        rows = series(tuple(NAMES), since=NOON, until=NOON + 86_400)
    assert len(asked) == 1 and set(rows.values) == set(NAMES)


def test_a_sparkline_has_the_last_quarter_of_an_hour():
    for n in range(90):
        keep(NOON - 10 * n - 0.01, bindings=300)
    rows = recent(["bindings"], now=NOON)
    assert rows.step == 30.0 and rows.count == 30
    assert rows.values["bindings"] == (30.0,) * 30


@pytest.mark.parametrize(
    ("names", "since", "until", "points"),
    [
        (["nonsense"], NOON, NOON + 60, 10),
        (["rooms; DROP TABLE controlplane_sample"], NOON, NOON + 60, 10),
        ([], NOON, NOON + 60, 10),
        (["rooms"], NOON, NOON, 10),
        (["rooms"], NOON + 60, NOON, 10),
        (["rooms"], NOON, NOON + 60, 0),
        (["rooms"], NOON, NOON + 60, MOST_POINTS + 1),
        (["rooms"], 0.0, NOON, 10),
    ],
)
def test_what_makes_no_series_is_refused(names, since, until, points):
    with pytest.raises(Refused):
        series(names, since=since, until=until, points=points)
