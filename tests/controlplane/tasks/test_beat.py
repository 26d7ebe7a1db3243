"""What beat sends where nobody takes it: no more than Redis can keep, and again as soon as somebody does."""

import pytest
from django.conf import settings

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
