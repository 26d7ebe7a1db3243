"""Alarms as rules: raised once it lasts, over once it is gone for a while, quiet when it flaps, one when there are many."""

import random
from dataclasses import dataclass, field, replace

from controlplane.domain.alarm_groups import FROM, UNTIL, causes, group_key, is_group
from controlplane.domain.alarms import (
    CALM_SECONDS,
    LONGEST_HOLD_SECONDS,
    LONGEST_KEY,
    PATIENCE,
    SEVERITIES,
    Alarm,
    Fate,
    Past,
    Severity,
    cause_of,
    follow,
    key_of,
    settled,
)
from controlplane.domain.attention import Concern, Harm, Place


def concern(name: str = "prefill-a", *, harm: Harm = Harm.DOWN, state: str = "down", **more) -> Concern:
    said = {
        "at": Place("instance", name),
        "what": "takes no requests",
        "next": "Look",
        "step": "Show",
        "to": Place("x"),
    }
    return Concern(harm=harm, state=state, name=name, **{**said, **more})


@dataclass
class Watcher:
    """Rounds one after the other, and what the tables would hold between them."""

    now: float = 1000.0
    webhook: bool = True
    open: dict[str, Alarm] = field(default_factory=dict)
    past: dict[str, Past] = field(default_factory=dict)
    told: list[tuple[float, str, str]] = field(default_factory=list)
    fates: list[tuple[Fate, str]] = field(default_factory=list)
    numbers: int = 0

    def look(self, *concerns: Concern, after: float = 3.0) -> None:
        self.now += after
        raised = {key for key, alarm in self.open.items() if alarm.raised_at is not None}
        there = causes(concerns, raised=raised, grouped={key for key in self.open if is_group(key)})
        known = list(self.open.values())
        steps, told = settled(known, follow(known, there, self.past, now=self.now), webhook=self.webhook)
        for step in steps:
            key, alarm = step.alarm.cause.key, step.alarm
            self.fates.append((step.fate, key))
            if step.fate in (Fate.RESOLVED, Fate.DROPPED):
                del self.open[key]
                if step.fate is Fate.RESOLVED:
                    self.past[key] = Past(self.now, alarm.returns)
                continue
            if step.fate is Fate.BEGUN:
                self.numbers += 1
                alarm = replace(alarm, id=self.numbers)
            self.open[key] = alarm
        self.told += [(self.now, kind, alarm.cause.key) for kind, alarm in told]

    def last(self, seconds: float, *concerns: Concern) -> None:
        until = self.now + seconds
        while self.now < until:
            self.look(*concerns)

    @property
    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.told]


def test_what_lasts_is_raised_once_and_resolved_once_after_it_was_gone_for_a_while():
    watcher, down = Watcher(), concern()
    watcher.look(down)
    assert watcher.told == [] and [alarm.raised_at for alarm in watcher.open.values()] == [None]
    watcher.last(60, down)
    assert watcher.kinds == ["raised"]
    assert watcher.told[0][0] <= 1000 + 3 + PATIENCE[Severity.CRITICAL].raise_after + 3
    watcher.look()
    assert watcher.kinds == ["raised"]
    watcher.last(30)
    assert watcher.kinds == ["raised", "resolved"] and watcher.open == {}
    assert [fate for fate, _ in watcher.fates if fate is not Fate.CHANGED] == [Fate.BEGUN, Fate.RAISED, Fate.RESOLVED]


def test_what_stays_as_it_is_is_no_step():
    watcher, down = Watcher(), concern()
    watcher.last(30, down)
    watcher.fates.clear()
    watcher.last(300, down)
    assert watcher.fates == []


def test_what_is_over_before_it_was_worth_telling_is_forgotten():
    watcher = Watcher()
    watcher.look(concern())
    watcher.last(60)
    assert watcher.told == [] and watcher.open == {}
    assert [fate for fate, _ in watcher.fates] == [Fate.BEGUN, Fate.CHANGED, Fate.DROPPED]


def test_the_worse_it_is_the_sooner_it_is_raised():
    raised = {}
    for harm in Harm:
        watcher, one = Watcher(), concern(harm=harm)
        watcher.last(120, one)
        raised[harm] = watcher.told[0][0]
    assert [raised[harm] for harm in Harm] == sorted(raised.values())
    assert set(SEVERITIES) == set(Harm)


def test_what_comes_back_before_it_is_over_goes_on_and_must_be_gone_for_twice_as_long():
    watcher, down = Watcher(), concern()
    watcher.last(20, down)
    holds = []
    for _ in range(8):
        watcher.last(9)
        watcher.look(down)
        (alarm,) = watcher.open.values()
        holds.append(alarm.hold_seconds)
    assert watcher.kinds == ["raised"] and alarm.flapping
    assert holds == [30.0, 60.0, 120.0, 240.0, 480.0, *[LONGEST_HOLD_SECONDS] * 3]
    watcher.last(LONGEST_HOLD_SECONDS - 10)
    assert watcher.kinds == ["raised"]
    watcher.last(30)
    assert watcher.kinds == ["raised", "resolved"]


def test_what_flaps_faster_than_it_would_be_raised_is_raised_all_the_same():
    watcher, down = Watcher(), concern(harm=Harm.STUCK)
    for _ in range(10):
        watcher.look(down)
        watcher.look()
    assert watcher.kinds == ["raised"]


def test_what_comes_back_soon_after_it_was_over_is_a_new_alarm_that_remembers():
    watcher, down = Watcher(), concern()
    for _ in range(3):
        watcher.last(15, down)
        watcher.last(130)
    assert watcher.kinds == ["raised", "resolved"] * 3
    watcher.last(15, down)
    assert [alarm.returns for alarm in watcher.open.values()] == [3]
    watcher.last(300)
    watcher.last(CALM_SECONDS)
    watcher.last(15, down)
    assert [alarm.returns for alarm in watcher.open.values()] == [0]


def test_however_it_flaps_an_hour_has_few_messages():
    for seed in range(30):
        chance, watcher = random.Random(seed), Watcher()
        share = chance.choice([0.05, 0.2, 0.5, 0.8, 0.95])
        until = watcher.now + 3600
        while watcher.now < until:
            watcher.last(chance.expovariate(1 / 20), *([concern()] if chance.random() < share else []))
        assert len(watcher.told) <= 16, (seed, share, len(watcher.told))
        # Each says the other thing than the one before.
        assert watcher.kinds == (["raised", "resolved"] * 16)[: len(watcher.told)]


def test_a_thousand_that_go_down_at_once_are_one_alarm_with_their_number():
    watcher = Watcher()
    all_ = [concern(f"prefill-{number:03}", size=8) for number in range(1000)]
    watcher.last(60, *all_)
    assert watcher.told == [(watcher.told[0][0], "raised", group_key("down", "instance"))]
    (alarm,) = watcher.open.values()
    assert alarm.cause.name == "1,000 instances" and alarm.cause.what == "are down" and alarm.cause.count == 1000
    assert alarm.cause.why == "prefill-000, prefill-001, prefill-002 and 997 more."
    assert alarm.cause.severity is Severity.CRITICAL
    watcher.last(120)
    assert watcher.kinds == ["raised", "resolved"]


def test_a_storm_that_grows_one_by_one_is_bounded_too_and_told_again_when_it_has_doubled():
    watcher = Watcher()
    down: list[Concern] = []
    for number in range(300):
        down.append(concern(f"prefill-{number:03}"))
        watcher.last(6, *down)
    singles = [key for _, kind, key in watcher.told if kind == "raised" and not is_group(key)]
    # Those of the last moment before they were many were not raised yet.
    assert FROM - 3 <= len(singles) <= FROM
    assert [kind for _, kind, key in watcher.told if is_group(key)] == ["raised", "changed", "changed", "changed"]
    assert len(watcher.open) <= FROM + 1


def test_when_few_are_left_of_many_they_are_told_by_name():
    watcher = Watcher()
    all_ = [concern(f"prefill-{number:03}") for number in range(30)]
    watcher.last(20, *all_)
    watcher.last(60, *all_[: UNTIL + 1])
    assert watcher.kinds == ["raised"] and len(watcher.open) == 1
    watcher.last(60, *all_[:UNTIL])
    named = {key for _, kind, key in watcher.told if kind == "raised" and not is_group(key)}
    assert named == {one.key for one in all_[:UNTIL]}
    assert watcher.told[-1][1:] == ("resolved", group_key("down", "instance"))


def test_those_that_were_raised_before_the_others_go_on_by_themselves():
    watcher = Watcher()
    first, others = concern("first"), [concern(f"p-{number}") for number in range(40)]
    watcher.last(20, first)
    watcher.last(60, first, *others)
    assert sorted(key for _, kind, key in watcher.told if kind == "raised") == sorted(
        [first.key, group_key("down", "instance")]
    )
    watcher.last(60, *others)
    assert watcher.told[-1][1:] == ("resolved", first.key)


def test_nobody_hears_of_the_end_of_what_was_never_told_and_a_new_webhook_hears_of_what_is_open():
    watcher, down = Watcher(webhook=False), concern()
    watcher.last(30, down)
    watcher.webhook = True
    watcher.look(down)
    assert watcher.kinds == ["raised"]
    quiet = Watcher(webhook=False)
    quiet.last(30, down)
    quiet.webhook = True
    quiet.last(60)
    assert quiet.kinds in ([], ["raised", "resolved"])


def test_what_gets_worse_is_told_again_and_what_gets_better_is_not():
    watcher = Watcher()
    watcher.last(30, concern(harm=Harm.STUCK))
    watcher.look(concern(harm=Harm.DOWN))
    watcher.look(concern(harm=Harm.DOUBT))
    assert watcher.kinds == ["raised", "changed"]


def test_words_of_others_are_bounded_and_plain():
    long = concern("x" * 900, what="said \x00 it")
    cause = cause_of(long)
    assert len(cause.key) == LONGEST_KEY and "\x00" not in cause.what
    assert key_of(long) == cause.key != key_of(concern("x" * 901))
    assert cause_of(concern()).instance == "prefill-a"
    assert cause_of(concern("Gateway g", at=Place("gateway", "g"))).instance == ""


def test_a_clock_that_is_set_back_holds_no_alarm_up():
    watcher, it = Watcher(), concern()
    watcher.look(it)
    watcher.now -= 7200
    watcher.last(9, it)
    assert watcher.kinds == ["raised"]
    watcher.look()
    watcher.now -= 7200
    watcher.last(PATIENCE[Severity.CRITICAL].resolve_after + 6)
    assert watcher.kinds == ["raised", "resolved"]
