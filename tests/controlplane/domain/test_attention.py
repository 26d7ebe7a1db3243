"""What needs a person: each rule with what it speaks of beside what it leaves alone, and the order of all of them."""

import dataclasses

import pytest

from controlplane.domain import attention_fleet as beside
from controlplane.domain.attention import Concern, Harm, Place, most_harm_first
from controlplane.domain.attention_fleet import ChooserSeen, DrainSeen, Misfit, Refusal
from controlplane.domain.attention_instances import of_instances
from controlplane.domain.attention_seen import InstanceSeen, LaunchSeen
from controlplane.domain.observed import observed
from controlplane.domain.obstacles import obstacle
from controlplane.domain.routable import Breaker, Health, Registration, Subject, Wish, explain, of_group

NOW = 1000.0
WHOLE = Registration(True, 7, 4, 4, proven=True)
UP = Health(200, answering=4, verified=4, probeable=4)
SERVING = LaunchSeen(number=7, registered=4, size=4)
SHUT = tuple(Breaker("g1", group, "open", 900.0, "resets") for group in (None,))


def subject(**changes) -> Subject:
    given = {
        "name": "p",
        "role": "prefill",
        "registration": WHOLE,
        "health": UP,
        "groups": (0, 1),
        "selectors": ("g1",),
    }
    return Subject(**(given | changes))


def seen(about: Subject | None = None, **changes) -> InstanceSeen:
    about = about or subject()
    verdict = explain(about)
    word = observed(verdict, unanswered=changes.get("unanswered", 0), owing=changes.get("owing_since") is not None)
    given = {
        "name": about.name,
        "role": about.role,
        "observed": word,
        "verdict": verdict,
        "groups": tuple((group, explain(of_group(about, group))) for group in about.groups),
        "created_at": 0.0,
        "current": SERVING,
    }
    return InstanceSeen(**(given | changes))


def told(one: InstanceSeen) -> list[Concern]:
    return list(of_instances([one], now=NOW))


BROKEN = subject(registration=Registration(True, 7, 3, 4, missing="3/4"), health=Health(503, lost=True))
FILLING = subject(registration=Registration(True, 7, 3, 4, missing="3/4"))
UNPROVEN = subject(registration=Registration(True, 7, 4, 4))
FLUSHING = subject(health=Health(503, reason="launch 6 was replaced"))
EMPTY = subject(registration=Registration(True), health=Health(200))
LACKING = LaunchSeen(number=7, registered=3, size=4, missing="dp1 tp1", newest_at=NOW - 100)
FRESH = dataclasses.replace(LACKING, newest_at=NOW - 5)
FULL = LaunchSeen(number=8, registered=4, size=4, newest_at=NOW - 100)
COMING = LaunchSeen(number=8, registered=1, size=4, missing="dp0 tp1 and 2 more", newest_at=NOW - 100)


@pytest.mark.parametrize(
    ("state", "what", "one", "quiet"),
    [
        (
            "down",
            "takes no requests: 1 of its 4 ranks is gone",
            seen(BROKEN, current=LACKING, owing_since=900.0),
            seen(),
        ),
        (
            "stalled",
            "stopped filling at 3 of 4",
            seen(FILLING, current=LACKING),
            seen(FILLING, current=FRESH),
        ),
        (
            "stalled",
            "stopped filling at 1 of 4",
            seen(candidate=COMING),
            seen(candidate=dataclasses.replace(COMING, newest_at=NOW)),
        ),
        (
            "unproven",
            "has all of its 4 ranks, and probes do not prove it",
            seen(UNPROVEN, current=FULL),
            seen(UNPROVEN, current=dataclasses.replace(FULL, newest_at=NOW - 1)),
        ),
        (
            "blocked",
            "is whole, and waits for launch 7 to end",
            seen(candidate=FULL),
            seen(candidate=dataclasses.replace(FULL, newest_at=NOW - 1)),
        ),
        (
            "conflict",
            "is claimed twice: 1 rank asks for a slot whose owner answers",
            seen(current=dataclasses.replace(SERVING, claims=1)),
            seen(),
        ),
        (
            "flushing",
            "answers 503 until every decode has dropped what it cached",
            seen(FLUSHING, owing_since=NOW - 20),
            seen(FLUSHING, owing_since=NOW - 2),
        ),
        ("degraded", "is in doubt: 2 of its 4 ranks do not answer probes", seen(unanswered=2), seen(unanswered=0)),
        ("conflict", "is in conflict: 2 sessions claim a rank whose session answers", seen(conflicts=2), seen()),
        (
            "missing",
            "is enabled, and no rank of it is registered",
            seen(EMPTY, current=None),
            seen(EMPTY, current=None, created_at=NOW),
        ),
        ("open", "takes no requests: every gateway keeps away from it", seen(subject(breakers=SHUT)), seen()),
    ],
)
def test_an_instance_is_named_for_what_is_wrong_with_it_and_only_then(state, what, one, quiet):
    assert [(concern.state, concern.what) for concern in told(one)] == [(state, what)]
    assert told(quiet) == []


def test_who_publishes_weights_and_has_no_rank_may_be_a_seed():
    (alone,) = told(seen(EMPTY, current=None))
    (weights,) = told(seen(EMPTY, current=None, sessions=1))
    assert (alone.why, alone.next) == ("", "Start it, or retire it")
    assert (weights.what, weights.next) == (alone.what, "Start its ranks")
    assert "added as a seed" in weights.why


def test_what_somebody_wanted_so_is_no_concern():
    for intent in ("cordoned", "draining", "retired"):
        away = subject(wishes=(Wish(intent),), registration=BROKEN.registration, health=BROKEN.health)
        assert told(seen(away, current=LACKING, owing_since=900.0)) == []
    group = subject(wishes=(Wish("enabled"), Wish("draining", 1)))
    assert told(seen(group)) == []
    each = seen(subject(wishes=(Wish("enabled"), Wish("cordoned", 0), Wish("draining", 1))))
    assert not each.verdict.routable and told(each) == [] and list(beside.nothing_left([each, each])) == []
    decode = subject(role="decode", registration=Registration(False), health=Health(200), groups=(), breakers=SHUT)
    decode = dataclasses.replace(decode, wishes=(Wish("enabled"), Wish("cordoned", 0)))
    spoken = ((0, explain(of_group(decode, 0))),)
    assert [concern.state for concern in told(seen(decode, current=None, groups=spoken))] == ["open"]
    # One of them was not wanted so: then the whole of it takes no requests for that.
    shut = subject(wishes=(Wish("enabled"), Wish("cordoned", 0)), breakers=(Breaker("g1", 1, "open", 900.0, "resets"),))
    assert [concern.name for concern in told(seen(shut))] == ["p"]


def test_a_dp_group_that_nobody_chooses_is_named_by_itself_while_the_others_serve():
    half = seen(subject(breakers=(Breaker("g1", 1, "open", 900.0, "resets"),)))
    (concern,) = told(half)
    assert (concern.name, concern.harm, concern.size) == ("p dp1", Harm.PART, 2)
    assert concern.why == "The breaker of g1 is open: resets."


def test_many_dp_groups_that_nobody_chooses_are_counted():
    groups = tuple(range(6))
    shut = tuple(Breaker("g1", group, "open", 900.0) for group in groups[:5])
    said = [concern.name for concern in told(seen(subject(groups=groups, breakers=shut)))]
    assert said == ["p dp0", "p dp1", "p in 3 more DP groups"]


def test_a_stalled_candidate_says_that_the_launch_before_it_serves():
    (concern,) = told(seen(candidate=COMING))
    assert concern.why == "Missing dp0 tp1 and 2 more. Launch 7 serves meanwhile."
    assert (concern.next, concern.to) == ("Look at the start of the 3 missing ranks", Place("launches", "p"))


def test_nobody_answers_without_a_leader():
    (concern,) = beside.leadership(leads=False, holder="a pid 1", heard_at=990.0)
    assert (concern.harm, concern.since) == (Harm.NOTHING_SERVED, 990.0)
    assert concern.why.startswith("The last to lead was a pid 1. ")
    assert list(beside.leadership(leads=True, holder="a pid 1", heard_at=990.0)) == []


def test_a_role_of_which_nobody_is_left_is_worse_than_each_of_its_instances():
    gone = [dataclasses.replace(seen(BROKEN, current=LACKING, owing_since=900.0), name=name) for name in ("a", "b")]
    (concern,) = beside.nothing_left(gone)
    assert (concern.name, concern.harm) == ("All 2 prefill instances", Harm.NOTHING_SERVED)
    assert list(beside.nothing_left([*gone, seen()])) == []
    # One alone says so itself; what never served has not been lost.
    assert list(beside.nothing_left(gone[:1])) == []
    assert list(beside.nothing_left([seen(FILLING, current=FRESH), seen(EMPTY, current=None)])) == []


def drain(**changes) -> DrainSeen:
    given = {
        "id": 3,
        "what": "dp1 of p",
        "progress": "waiting",
        "reason": "new driver",
        "actor": "anna",
        "started_at": 800.0,
        "deadline_at": None,
        "checked_at": NOW - 1,
        "blockers": (obstacle("silent gw-2", "gateway gw-2 is silent"), obstacle("rooms", "rooms are still live")),
    }
    return DrainSeen(**(given | changes))


def test_a_drain_says_what_it_waits_for_and_what_to_do_about_it():
    (concern,) = beside.of_drains([drain()], now=NOW)
    assert (concern.name, concern.what) == ("Drain of dp1 of p", "waits: gateway gw-2 is silent")
    assert concern.why == "It waits for 1 more thing. Begun by anna: new driver."
    assert concern.next.startswith("Start gw-2 again")
    assert (concern.state, concern.to, concern.since) == ("blocked", Place("drain", "3"), 800.0)
    assert list(beside.of_drains([drain(progress="drained"), drain(blockers=())], now=NOW)) == []


def test_a_drain_that_is_overdue_or_that_nobody_looks_at_is_told_even_without_a_blocker():
    (late,) = beside.of_drains([drain(progress="overdue", deadline_at=950.0, blockers=())], now=NOW)
    assert (late.state, late.harm, late.since) == ("overdue", Harm.PART, 950.0)
    (alone,) = beside.of_drains([drain(blockers=(), checked_at=900.0)], now=NOW)
    assert (alone.what, alone.since) == ("waits: nobody looks at it", 900.0)


def test_a_silent_gateway_and_a_router_that_is_away_say_who_waits_for_them():
    quiet = [
        ChooserSeen(name="g1", router=False, quiet=True, heard_at=900.0, held_up=1),
        ChooserSeen(name="r1", router=True, quiet=True, heard_at=None, problem="it refuses connections"),
        ChooserSeen(name="r2", router=True, quiet=False, heard_at=999.0, problem="p is not in it: 503"),
        ChooserSeen(name="g2", router=False, quiet=False, heard_at=999.0),
    ]
    said = {concern.name: concern for concern in beside.of_choosers(quiet)}
    assert [(name, one.state) for name, one in said.items()] == [
        ("Gateway g1", "silent"),
        ("Router r1", "away"),
        ("Router r2", "mismatch"),
    ]
    assert said["Gateway g1"].why == "1 drain waits for it."


def test_who_fits_nobody_is_told_with_the_field_and_what_sglang_would_do():
    one = Misfit(
        name="p",
        prefill="p",
        decode="d",
        others=1,
        alike=1,
        field="page_size",
        sentence="page_size differs: prefill has 64, decode has 32",
        what_happens="the decode raises",
        since=900.0,
    )
    (concern,) = beside.of_pairs([one])
    assert (concern.name, concern.state) == ("p × d", "mismatch")
    assert concern.what == "cannot pair: page_size differs: prefill has 64, decode has 32"
    many = dataclasses.replace(one, name="d", others=3, alike=30)
    (concern,) = beside.of_pairs([many])
    assert (concern.name, concern.at) == ("d", Place("pair", "p/d"))
    assert concern.what.startswith("cannot pair with any of 3 instances: ")
    assert concern.why == "The decode raises. 29 instances more of its kind as well."
    (concern,) = beside.of_pairs([dataclasses.replace(one, router="r1")])
    assert (concern.harm, concern.state) == (Harm.PART, "incompatible")


def test_refused_registrations_are_told_with_the_newest_of_their_reasons():
    one = Refusal(instance="p", count=3, what="PUT /route", source="10.0.0.9", sentence="no field page_size", at=990.0)
    (concern,) = beside.of_refusals([one])
    assert concern.what == "had 3 different registrations refused"
    assert concern.why == "PUT /route from 10.0.0.9: no field page_size."


def test_most_harm_comes_first_then_the_larger_then_the_older():
    def made(name: str, harm: Harm, size: int, since: float | None) -> Concern:
        at = Place("instance", name)
        return Concern(
            harm=harm, state="down", name=name, at=at, what="", next="", step="", to=at, since=since, size=size
        )

    given = [
        made("old", Harm.DOWN, 4, 10.0),
        made("told", Harm.TOLD, 400, 1.0),
        made("young", Harm.DOWN, 4, 20.0),
        made("large", Harm.DOWN, 8, 30.0),
        made("all", Harm.NOTHING_SERVED, 0, None),
    ]
    assert [one.name for one in most_harm_first(given)] == ["all", "large", "old", "young", "told"]


@pytest.mark.parametrize(
    ("word", "about", "more"),
    [
        ("up", subject(), {}),
        ("degraded", subject(), {"unanswered": 1}),
        ("down", BROKEN, {"owing": True}),
        ("filling", FILLING, {}),
        ("missing", EMPTY, {}),
        ("down", EMPTY, {"owing": True}),
        ("unproven", UNPROVEN, {}),
        ("flushing", FLUSHING, {"owing": True}),
        ("up", subject(breakers=SHUT), {}),
        ("up", subject(wishes=(Wish("cordoned"),)), {}),
        ("live", subject(role="seed", registration=Registration(True)), {"sessions": 4}),
        ("conflict", subject(role="seed", registration=Registration(True)), {"sessions": 4, "conflicts": 1}),
        ("missing", subject(role="seed", registration=Registration(True)), {}),
        ("not_observed", subject(role="decode", registration=Registration(False), groups=()), {}),
        ("open", subject(role="decode", registration=Registration(False), groups=(), breakers=SHUT), {}),
    ],
)
def test_what_is_observed_is_one_word_whatever_is_wanted(word, about, more):
    assert observed(explain(about), **more) == word
