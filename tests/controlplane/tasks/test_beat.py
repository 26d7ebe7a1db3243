"""What beat sends: what is due, whatever the clock is set to; where nobody takes it, no more than Redis can keep."""

import datetime

import pytest
from django.conf import settings

from controlplane.celery import app
from controlplane.queries.own_figures import queue_length
from controlplane.tasks import beat
from controlplane.tasks.beat import Clock
from tests.support.redis import Redis


@pytest.fixture
def redis(tmp_path_factory, monkeypatch):
    one = Redis(tmp_path_factory.mktemp("b")).start()
    monkeypatch.setattr(settings, "REDIS_URL", one.url)
    monkeypatch.setattr(beat, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(beat, "FULL", 20)
    yield one
    one.kill9()


class Sending(Clock):
    """Sends to the queue as Celery does, without its connection."""

    def __init__(self, redis: Redis) -> None:
        import redis as client

        self._client = client.Redis.from_url(redis.url)

    def apply_async(self, entry, producer=None, advance=True, **kwargs):
        self._client.rpush(f"{settings.CELERY_BROKER_TRANSPORT_OPTIONS['global_keyprefix']}celery", entry)

    def take_all(self) -> None:
        self._client.flushall()

    def close(self) -> None:
        self._client.close()


def test_a_queue_from_which_nobody_takes_grows_no_further_and_goes_on_when_somebody_does(redis):
    clock = Sending(redis)
    try:
        for number in range(100):
            clock.apply_entry(str(number))
        assert queue_length() == 20
        clock.take_all()
        clock.apply_entry("later")
        assert queue_length() == 1
    finally:
        clock.close()
    redis.kill9()
    assert queue_length() is None


def test_how_long_it_is_is_asked_seldom(redis, monkeypatch):
    asked = []
    monkeypatch.setattr(beat, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(beat, "queue_length", lambda: asked.append(1) or 0)
    clock = Sending(redis)
    for _ in range(10):
        clock.apply_entry("x")
    assert len(asked) == 1
    clock.close()


class Ticking(Clock):
    """Ticks through time that a test lets pass, and keeps what it would send."""

    producer = None

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.now, self.passed = 1_767_225_600.0, 500.0
        self.wall, self.steady = lambda: self.now, lambda: self.passed
        monkeypatch.setattr(app, "now", lambda: datetime.datetime.fromtimestamp(self.now, datetime.UTC))
        super().__init__(app=app, lazy=False)

    def apply_entry(self, entry, producer=None):
        self.sent.append(entry.name)

    def within(self, seconds: float) -> dict[str, int]:
        """How often each was sent."""
        before, until = len(self.sent), self.passed + seconds
        while self.passed < until:
            slept = max(0.001, self.tick())
            self.now, self.passed = self.now + slept, self.passed + slept
        sent = self.sent[before:]
        return {name: sent.count(name) for name in sent}


@pytest.mark.parametrize("set_by", [-3600.0, -40 * 86_400.0, 5 * 3600.0], ids=["an hour back", "weeks back", "ahead"])
def test_a_clock_that_is_set_costs_no_round_and_makes_none(monkeypatch, set_by):
    clock = Ticking(monkeypatch)
    # At its start everything is sent.
    assert set(clock.within(10)) == set(settings.CELERY_BEAT_SCHEDULE)
    clock.now += set_by
    sent = clock.within(20)
    assert 18 <= sent["probe engines"] <= 21 and 5 <= sent["watch for alarms"] <= 8
    assert "forget old alarms" not in sent, "an hour has not passed"


def test_a_clock_that_loses_a_little_again_and_again_is_followed(monkeypatch):
    clock = Ticking(monkeypatch)
    clock.within(5)
    sent = 0
    for _ in range(20):
        clock.now -= 0.5
        sent += clock.within(2).get("probe engines", 0)
    assert sent >= 20
