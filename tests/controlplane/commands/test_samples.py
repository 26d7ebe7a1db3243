"""A day of samples is kept, and nothing that a page of a whole day may still show goes."""

import time

import pytest

from controlplane.commands import samples
from controlplane.databases import TRAFFIC
from controlplane.ledger.failures import FencedOut
from controlplane.ledger.store import RoomStore
from controlplane.models import Sample, TrafficFence
from controlplane.models.samples import SAMPLES_KEPT_SECONDS
from controlplane.tasks.samples import forget_old_samples

NOW = 1_000_000.0


@pytest.fixture(autouse=True)
def _on_backend(on_backend):
    return on_backend


def sample(at: float) -> tuple[object, ...]:
    return (at, 10.0, 1, 2, 3, 4, 5, 6, 7, 8, 0.5, None)


def left() -> list[float]:
    return list(Sample.objects.using(TRAFFIC).order_by("at").values_list("at", flat=True))


def test_the_store_keeps_what_it_is_given_column_by_column():
    RoomStore(TRAFFIC).keep_sample(0, sample(NOW))
    stored = Sample.objects.using(TRAFFIC).get()
    assert [getattr(stored, field.name) for field in Sample._meta.concrete_fields][1:] == list(sample(NOW))


def test_a_process_that_does_not_lead_any_more_keeps_none():
    TrafficFence.objects.using(TRAFFIC).update(token=7)
    with pytest.raises(FencedOut):
        RoomStore(TRAFFIC).keep_sample(6, sample(NOW))
    RoomStore(TRAFFIC).keep_sample(7, sample(NOW))
    assert left() == [NOW]


def test_what_is_older_than_a_day_and_some_slack_goes():
    store = RoomStore(TRAFFIC)
    oldest = NOW - SAMPLES_KEPT_SECONDS
    for at in (oldest - 601, oldest - 599, oldest + 1, NOW):
        store.keep_sample(0, sample(at))
    assert samples.forget_old(now=NOW) == 1
    assert left() == [oldest - 599, oldest + 1, NOW]
    assert samples.forget_old(now=NOW) == 0


def test_the_task_runs_by_the_clock_and_may_find_nothing():
    forget_old_samples()
    RoomStore(TRAFFIC).keep_sample(0, sample(NOW))
    RoomStore(TRAFFIC).keep_sample(0, sample(now := time.time()))
    forget_old_samples()
    assert left() == [now]
