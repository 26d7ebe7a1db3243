"""Counters count every call once, from any thread, and stay small whatever they are told."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controlplane.metrics.exposition import render
from controlplane.metrics.meters import MOST_SERIES, OTHER, Counts, Histogram, Level, Timings
from controlplane.metrics.metric import Sample, counter, gauge, histogram

from .scraping import Scrape

DONE = counter("pdcp_done", "Done", "how")
TOOK = histogram("pdcp_took_seconds", "Took", "how", bounds=(0.1, 1, 10))
THERE = gauge("pdcp_there", "There")
THREADS, EACH = 8, 2000


def test_a_histogram_counts_a_value_on_a_bound_below_it():
    took = Histogram((0.1, 1.0))
    for value in (0.0, 0.1, 0.100001, 1.0, 1.5):
        took.observe(value)
    assert took.cumulative() == [("0.1", 2), ("1.0", 4), ("+Inf", 5)]
    assert took.total == pytest.approx(2.700001) and took.count == 5


def test_many_threads_lose_no_count():
    done, took, there = Counts(DONE), Timings(TOOK), Level(THERE)

    def work() -> None:
        for number in range(EACH):
            done.add("well" if number % 2 else "ill")
            took.observe(0.5, "well")
            there.move(1)
            there.move(-1)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = Scrape.here([*done.samples(), *took.samples(), *there.samples()])
    assert said.value("pdcp_done_total", how="well") == said.value("pdcp_done_total", how="ill") == THREADS * EACH / 2
    assert said.value("pdcp_took_seconds_count", how="well") == THREADS * EACH
    assert said.value("pdcp_took_seconds_sum", how="well") == THREADS * EACH * 0.5
    assert said.value("pdcp_there") == 0


def test_what_is_known_beforehand_stands_at_zero_so_that_a_rate_sees_the_first():
    said = Scrape.here(Counts(DONE, [("well",), ("ill",)]).samples())
    assert said.series("pdcp_done_total") == {(("how", "well"),): 0, (("how", "ill"),): 0}


def test_labels_that_others_choose_cannot_grow_a_scrape_without_end():
    done = Counts(DONE)
    for number in range(MOST_SERIES + 500):
        done.add(f"kind-{number}")
    done.add("kind-7")
    series = Scrape.here(done.samples()).series("pdcp_done_total")
    assert len(series) == MOST_SERIES + 1
    assert series[("how", OTHER),] == 500 and series[("how", "kind-7"),] == 2


def test_a_declared_metric_stands_in_the_answer_before_it_has_a_value():
    _, body = render(list, declared=[DONE, TOOK, THERE], process=False)
    for name, kind in (("pdcp_done_total", "counter"), ("pdcp_took_seconds", "histogram"), ("pdcp_there", "gauge")):
        assert f"# TYPE {name} {kind}\n" in body.decode()


@pytest.mark.parametrize("hostile", ['a"b', "a\nb", "a\\b", "half \ud800 a pair", "ünïcode", "{}", ""])
def test_no_name_however_odd_breaks_the_answer(hostile):
    _, body = render(lambda: [Sample(DONE, 1, (hostile,))], process=False)
    (family,) = text_string_to_metric_families(body.decode())
    assert [sample.value for sample in family.samples if sample.name == "pdcp_done_total"] == [1]
    if "\ud800" not in hostile:
        assert family.samples[0].labels == {"how": hostile}


def test_who_asks_for_open_metrics_gets_it():
    content_type, body = render(lambda: [Sample(DONE, 3, ("well",))], "application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text") and body.endswith(b"# EOF\n")
    assert b'pdcp_done_total{how="well"} 3' in body


def test_every_process_tells_its_memory_and_processor_time():
    _, body = render(list)
    assert b"process_resident_memory_bytes" in body and b"process_cpu_seconds_total" in body
