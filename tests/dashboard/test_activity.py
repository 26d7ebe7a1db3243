"""Activity: charts and their tables say the same, the time is in the URL, and what is not known is said."""

from __future__ import annotations

import csv
import doctest
import io
import json
import re
import time

import pytest

from dashboard.presenters import activity, charts, numbers, spans, sparks
from dashboard.presenters.activity import head_of
from dashboard.presenters.charts import CHARTS, SERIES, charts_of
from dashboard.presenters.spans import RANGES, Span, span_of
from dashboard.templatetags.charts import spark
from tests.dashboard.conftest import queries, text_of
from tests.dashboard.samples import keep_samples


@pytest.mark.parametrize("module", [activity, charts, numbers, sparks, spans])
def test_the_examples_of_the_presenters_hold(module):
    assert doctest.testmod(module).failed == 0


def test_an_empty_time_says_what_would_fill_it(viewer):
    said = viewer.text("/activity/")
    assert "Nothing was sampled in this time" in said and "manage.py bootstrap" in said
    assert "kept for 24 hours" in said


def test_what_goes_on_is_said_in_a_sentence_before_any_chart(viewer):
    keep_samples(time.time(), 900, lookups=1234, bindings=50, rooms=77, refusals=0)
    said = viewer.text("/activity/?range=15m")
    sentence = "123 look-ups a second; 5 rooms a second are opened and 77 are alive; nothing is refused."
    assert said.index(sentence) < said.index("Probe latency")


def test_each_chart_has_its_numbers_for_the_script_and_a_table_that_says_the_same(viewer):
    keep_samples(time.time(), 900, lookups=1234, registrations=4)
    html = viewer.get("/activity/?range=15m", parts="charts")
    figures = re.findall(r'<figure.*?id="chart-(\w+)".*?</figure>', html, re.S)
    assert figures == [chart.key for chart in CHARTS]
    drawn = re.search(r'id="chart-lookups".*?data-values="([^"]*)"', html, re.S)
    assert drawn is not None
    values = drawn[1].split(",")
    assert len(values) in (90, 91) and set(values[1:-2]) == {"123.4"}
    tables = re.findall(r"<tbody>(.*?)</tbody>", html, re.S)
    assert len(tables) == len(CHARTS) and all(0 < table.count("<tr>") <= 24 for table in tables)
    assert "123" in text_of(tables[0])
    # Registrations are shown a minute.
    assert "most 24" in text_of(html)


def test_a_picture_says_in_words_what_it_shows(viewer):
    keep_samples(time.time(), 900, rooms=77)
    html = viewer.get("/activity/?range=15m")
    assert 'role="img" aria-label="Rooms alive: alive now 77, at most 77. The table below has the numbers."' in html


def test_a_process_that_stopped_sampling_is_told_with_its_age(viewer):
    keep_samples(time.time() - 120, 300)
    said = viewer.text("/activity/")
    assert re.search(r"Nothing was sampled for 2m .*: no bootstrap process leads, or it cannot store samples", said)
    assert "look-ups a second;" not in said


def test_holes_are_told_the_longest_first_and_a_bounded_number_of_them(viewer):
    now = time.time()
    for ago in (3000, 2400, 1800, 1200, 600):
        keep_samples(now - ago, 60)
    keep_samples(now, 300)
    said = viewer.text("/activity/")
    assert said.count("No samples for") == 3
    assert "1 shorter times without samples are not listed" in said or "2 shorter times" in said


def test_the_time_is_in_the_url_and_stays(viewer):
    keep_samples(time.time(), 7200)
    html = viewer.get("/activity/?range=24h")
    assert '<a href="?range=24h" aria-current="true">24h</a>' in html and "data-live" in html
    assert "Earlier" not in html and "Earlier" in viewer.get("/activity/?range=6h")
    fixed = viewer.get(f"/activity/?since={spans.moment(time.time() - 3600)}&until={spans.moment(time.time() - 1800)}")
    assert 'aria-current="true"' not in fixed and "does not move" in fixed
    assert not re.search(r"data-charts[^>]*data-live", fixed)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("range=2h", "range is one of 15m, 1h, 6h, 24h"),
        ("since=yesterday&until=today", "since is a moment such as"),
        ("since=2026-11-29T03:00:00Z", "since and until belong together"),
        ("until=2026-11-29T03:00:00Z", "since and until belong together"),
        ("since=2025-11-29T03:00:00Z&until=2025-11-29T03:00:10Z", "at least a minute"),
        ("since=2025-11-29T03:00:00Z&until=2025-11-29T02:00:00Z", "at least a minute"),
        ("since=2025-11-01T03:00:00Z&until=2025-11-29T03:00:00Z", "at most 24 hours"),
        ("since=2999-11-29T03:00:00Z&until=2999-11-29T04:00:00Z", "lies in the future"),
        ("since=0001-01-01T00:00:00%2B14:00&until=0001-01-01T00:00:00", "is a moment such as"),
        ("range=<script>alert(1)</script>", "range is one of"),
    ],
)
def test_a_time_that_cannot_be_is_refused_with_a_sentence(viewer, query, said):
    for path in ("/activity/", "/activity.csv", "/activity.json"):
        html = viewer.get(f"{path}?{query}", status=400)
        assert said in text_of(html).lower() and "<script>alert" not in html


def test_the_number_of_queries_and_bytes_is_the_same_for_a_minute_and_a_day(viewer):
    now = time.time()
    viewer.get("/activity/")
    with queries() as empty:
        viewer.get("/activity/?range=24h")
    keep_samples(now, 86_400)
    sizes = []
    for key in RANGES:
        with queries() as asked:
            sizes.append(len(viewer.get(f"/activity/?range={key}")))
        assert len(asked) == len(empty), asked
    assert max(sizes) < 75_000
    with queries() as refreshed:
        part = viewer.get("/activity/?range=24h", parts="charts")
    assert len([sql for sql in refreshed if "controlplane_sample" in sql]) == 2
    assert len(part) < 50_000


def test_numbers_can_be_taken_away_as_csv_and_json(viewer):
    keep_samples(time.time(), 900, lookups=1234, probe_p50_ms=None, probe_p99_ms=None)
    rows = list(csv.DictReader(io.StringIO(viewer.get("/activity.csv?range=15m"))))
    assert len(rows) in (90, 91) and rows[3]["lookups"] == "123.4" and rows[3]["probe_p50_ms"] == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d0Z", rows[3]["from"])
    found = json.loads(viewer.get("/activity.json?range=15m"))
    assert found["step_seconds"] == 10 and found["series"]["lookups"][3] == 123.4
    assert found["series"]["probe_p50_ms"][3] is None


def test_only_who_may_read_sees_it(stranger, nobody):
    assert stranger.client.get("/activity/").status_code == 302
    assert stranger.client.get("/activity.csv").status_code == 302
    nobody.get("/activity/", status=403)
    nobody.get("/activity.json", status=403)


def test_earlier_and_later_lead_through_the_day_and_back_to_the_present():
    now = 1_800_000_000.0
    live = span_of({"range": "1h"}, now=now)
    earlier = live.earlier()
    assert (earlier.since, earlier.until, live.later(now=now)) == (now - 7200, now - 3600, None)
    assert span_of(dict(part.split("=") for part in earlier.query.split("&")), now=now) == earlier
    # The page that leads here may have been open for a while.
    assert {step.query for at in (now, now + 90) if (step := earlier.later(now=at))} == {"range=1h"}
    assert earlier.earlier().later(now=now) == earlier


def test_a_sparkline_begins_at_zero_and_breaks_where_nothing_is_known():
    drawn = spark([0, 10, None, 5], width=33, height=20)
    assert drawn.count("<polyline") == 2 and '<circle cx="30.0" cy="11.0"' in drawn
    assert 'aria-hidden="true"' in drawn and "style" not in drawn
    assert "<polyline" not in spark([]) and "<circle" not in spark([1, None])


def test_a_presenter_needs_no_database():
    from controlplane.queries.series import SeriesRows

    rows = SeriesRows(1000.0, 10.0, dict.fromkeys(SERIES, (1.0, None, 3.0)), 1030.0)
    drawn = charts_of(rows, rows)
    assert drawn[0].lines[0].data == "1,,3" and drawn[0].lines[0].most_at == 1020.0
    head = head_of(Span(1000.0, 1030.0, "15m"), rows, drawn, now=1032.0)
    assert (head.holes[0].at, head.holes[0].seconds, head.silent_since) == (1010.0, 10.0, None)
