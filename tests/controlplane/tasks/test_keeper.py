"""When a worker is deaf: messages wait, it has nothing to do, and takes none for long."""

import pytest

from controlplane.tasks.keeper import ASK_SECONDS, DEAF_SECONDS, Hearing

WAIT, NONE = (lambda: 3), (lambda: 0)


def lost(
    hearing: Hearing, seconds: float, *, begin: float = 0.0, taken=lambda now: 7, idle=True, waiting=WAIT
) -> float:
    """After how many seconds it is; -1.0 for never."""
    for second in range(int(seconds)):
        now = begin + second
        if hearing.is_lost(taken=taken(now), idle=idle, waiting=waiting, now=now):
            return float(second)
    return -1.0


def test_a_worker_that_takes_nothing_while_messages_wait_is_deaf_after_a_while():
    found = lost(Hearing(), 100)
    assert DEAF_SECONDS <= found <= DEAF_SECONDS + 2 * ASK_SECONDS


@pytest.mark.parametrize(
    "so",
    [
        {"waiting": NONE},
        {"waiting": lambda: None},
        {"idle": False},
        {"taken": lambda now: int(now)},
        # Others take most of them, and it takes one now and then.
        {"taken": lambda now: int(now // 25)},
    ],
    ids=["nothing waits", "Redis is away", "busy", "takes", "takes some"],
)
def test_and_is_not_where_nothing_waits_nobody_can_say_or_it_is_busy_or_takes_some(so):
    assert lost(Hearing(), 600, **so) == -1.0


def test_redis_is_asked_seldom():
    asked: list[int] = []

    def waiting() -> int:
        asked.append(1)
        return 0

    lost(Hearing(), 60, waiting=waiting)
    assert len(asked) <= 60 / ASK_SECONDS + 1
