"""What the leader tells, as bytes that only another rank could have sent."""

import random

import pytest

from workers.collective.message import MOST_TOKEN, SIZE, Garbled, Launch, decode, encode


@pytest.mark.parametrize("launch", [Launch(1), Launch(65535, "t"), Launch(8998, "x" * MOST_TOKEN)])
def test_what_is_told_is_read_back_and_always_as_long(launch):
    assert len(encode(launch)) == SIZE
    assert decode(encode(launch)) == launch


def test_bytes_that_no_rank_sent_are_refused():
    dice = random.Random(5)
    good = encode(Launch(8998, "token"))
    wrong = [b"", bytes(SIZE), good[:-1], good + b"x", *(dice.randbytes(SIZE) for _ in range(200))]
    for at in range(SIZE):
        wrong.append(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    for raw in wrong:
        with pytest.raises(Garbled):
            decode(raw)


@pytest.mark.parametrize("launch", [Launch(0), Launch(70000), Launch(1, "x" * (MOST_TOKEN + 1)), Launch(1, "ü")])
def test_what_cannot_be_told_is_refused_at_home(launch):
    with pytest.raises(ValueError):
        encode(launch)
