"""Whom somebody doubts is asked at once: each doubt once, and none that is older than the term."""

from controlplane.bootstrap.doubts import REACH, Doubts


class Directory:
    def watched(self, now):
        return {("10.0.0.1", 4001), ("10.0.0.1", 4002)}


class Engines:
    def sessions(self):
        return {"10.0.0.1:7001"}


class Known:
    directory, engines = Directory(), Engines()

    def __init__(self, retired=False):
        self.retired = retired


class Fleet:
    def __init__(self):
        self.by_id = {1: Known(), 2: Known(), 3: Known(retired=True)}


class Watch:
    def __init__(self):
        self.asked = []

    def ask(self, instance, address):
        self.asked.append(address)

    def ask_session(self, instance, session):
        self.asked.append(session)


def test_the_ranks_and_sessions_of_whoever_is_doubted_are_asked_once():
    watch = Watch()
    doubts = Doubts(Fleet(), watch)
    doubts.take([(5, 1)])
    assert watch.asked == [], "what was said before the term is old"
    doubts.take([(5, 1), (6, 1), (7, 9), (8, 3)])
    assert sorted(map(str, watch.asked)) == ["('10.0.0.1', 4001)", "('10.0.0.1', 4002)", "10.0.0.1:7001"]
    doubts.take([(5, 1), (6, 1), (7, 9), (8, 3)])
    assert len(watch.asked) == 3


def test_one_that_could_be_read_late_is_not_missed():
    watch = Watch()
    doubts = Doubts(Fleet(), watch)
    doubts.take([])
    doubts.take([(10, 1)])
    doubts.take([(9, 2), (10, 1)])
    assert len(watch.asked) == 6 and doubts._last - REACH < 9


def test_many_doubts_about_one_are_one():
    watch = Watch()
    doubts = Doubts(Fleet(), watch)
    doubts.take([])
    doubts.take([(1, 1), (2, 1), (3, 1)])
    assert len(watch.asked) == 3
