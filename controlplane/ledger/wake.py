"""Tell other processes that something was committed. A wake-up only makes readers fast; their polling makes them certain."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time

import redis
import structlog
from django.conf import settings
from redis import asyncio as redis_asyncio
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

CHANNEL = "pdcp:committed"
PUBLISH_SECONDS = 0.05
"""For how long whoever committed waits, at most, for the word to be out."""

PING_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 2.0


class Bell:
    """Rings on one Redis, from a thread of its own: neither a slow name server nor a hung Redis holds up the caller."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._heard = threading.Condition()
        self._asked = 0
        self._tried = 0
        self._revision = 0
        self._thread: threading.Thread | None = None
        self._failing = False

    def ring(self, revision: int, *, wait_seconds: float) -> None:
        with self._lock:
            # A fork leaves the thread behind.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="wake", daemon=True)
                self._thread.start()
        with self._heard:
            self._asked += 1
            mine = self._asked
            self._revision = max(self._revision, revision)
            self._wanted.set()
            if wait_seconds > 0:
                self._heard.wait_for(lambda: self._tried >= mine, wait_seconds)

    def _run(self) -> None:
        client = redis.Redis.from_url(self._url, socket_timeout=1, socket_connect_timeout=1, retry=None)
        while True:
            self._wanted.wait()
            self._wanted.clear()
            with self._heard:
                asked, revision = self._asked, self._revision
            try:
                client.publish(CHANNEL, revision)
                self._failing = False
            except (RedisError, OSError) as problem:
                if not self._failing:
                    log.warning("wake_not_sent", problem=type(problem).__name__)
                self._failing = True
            with self._heard:
                self._tried = asked
                self._heard.notify_all()


_bell: Bell | None = None


def publish(revision: int, *, wait_seconds: float = PUBLISH_SECONDS) -> None:
    """Say that the ledger has reached `revision`. Never raises; returns within `wait_seconds`, whatever Redis does."""
    global _bell
    if not settings.REDIS_URL:
        return
    try:
        if _bell is None:
            _bell = Bell(settings.REDIS_URL)
        _bell.ring(revision, wait_seconds=min(wait_seconds, PUBLISH_SECONDS))
    except Exception as problem:
        # What was committed is committed; a thread that cannot start must not turn it into an error.
        log.warning("wake_not_sent", problem=type(problem).__name__)


async def wakes(url: str, event: asyncio.Event) -> None:
    """Set `event` whenever something was committed, until cancelled; connects again by itself.

    It is set after every (re)connection too, for what was said meanwhile. Without a URL it only waits.
    """
    if not url:
        await asyncio.Event().wait()
    pause = 0.1
    while True:
        client = redis_asyncio.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2 * PING_SECONDS)
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(CHANNEL)
            while True:
                message = await pubsub.get_message(timeout=PING_SECONDS)
                if message is None:
                    # A peer that vanished without a word is noticed by what it does not answer.
                    await pubsub.ping()
                    continue
                if message["type"] in ("message", "subscribe"):
                    pause = 0.1
                    event.set()
        except (RedisError, OSError, TimeoutError) as problem:
            log.warning("wake_ups_lost", problem=type(problem).__name__)
        finally:
            await _quietly_close(pubsub, client)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def _quietly_close(*parts: redis_asyncio.Redis | redis_asyncio.client.PubSub) -> None:
    for part in parts:
        with contextlib.suppress(RedisError, OSError, RuntimeError):
            await part.aclose()


class Sleeper:
    """Sleeps that a wake-up cuts short, for synchronous readers. Without Redis, or while it is away, only sleeps."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pubsub: redis.client.PubSub | None = None
        self._retry_at = 0.0

    def sleep(self, seconds: float) -> bool:
        """Until something was committed, `seconds` at most; whether it was a wake-up that ended it."""
        until = time.monotonic() + seconds
        try:
            pubsub = self._subscribed()
            while pubsub is not None and (left := until - time.monotonic()) > 0:
                message = pubsub.get_message(ignore_subscribe_messages=True, timeout=left)
                if message is not None:
                    return True
        except (RedisError, OSError):
            self.close()
            self._retry_at = time.monotonic() + LONGEST_PAUSE_SECONDS
        time.sleep(max(0.0, until - time.monotonic()))
        return False

    def _subscribed(self) -> redis.client.PubSub | None:
        if self._pubsub is None and self._url and time.monotonic() >= self._retry_at:
            client = redis.Redis.from_url(self._url, socket_timeout=0.2, socket_connect_timeout=0.2, retry=None)
            self._pubsub = client.pubsub()
            self._pubsub.subscribe(CHANNEL)
        return self._pubsub

    def close(self) -> None:
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            with contextlib.suppress(RedisError, OSError):
                pubsub.close()
