"""The questions about an instance, as values: their order, what follows from what, and that every no has a next step."""

import doctest
from dataclasses import replace
from typing import Any

import pytest

from controlplane.domain import inquiry, inquiry_arrival, inquiry_serving, questions
from controlplane.domain.engine_health import State
from controlplane.domain.inquiry import EXPLAINS, KEYS, inquire
from controlplane.domain.inquiry_facts import (
    Case,
    EngineSeen,
    Front,
    Gone,
    Leading,
    Names,
    PortSeen,
    Roster,
    Seated,
    Shut,
    Told,
)
from controlplane.domain.questions import Answer, Inquiry, Verdict, conclude, told_apart

NOW = 1000.0
SEATS = tuple(Seated(f"dp0 tp{n}", "10.0.0.1", f"10.0.0.1:400{n}", "up") for n in range(2))
WHOLE = Roster(1, 2, 2, True, seats=SEATS, registered_at=900.0)
UP = EngineSeen("http://e:1", State.UP, "it answers", 999.0, counts={"running": 1}, loads_at=995.0)
ROUTER = Front("router:r", seen_at=999.0, present=True, healthy=True)
WELL = Case("p", "prefill", Leading(True, "host pid 1", 999.0), roster=WHOLE, engine=UP, fronts=(ROUTER,), fitting=1)
TOLD = Told("PUT /route", "10.0.0.9", "page_size is 64 here and 16 there.", 990.0)

FAULTS: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "nobody leads": (("directory", "nobody_leads"), {"leading": Leading(False, "host pid 1", 900.0)}),
    "nobody ever led": (("directory", "never_led"), {"leading": Leading(False)}),
    "port taken": (("port", "taken"), {"port": PortSeen(own=8998, failed="another process listens there")}),
    "stranger at the port": (("port", "stranger"), {"port": PortSeen(holder="stranger", held="e:8998", held_at=1.0)}),
    "observed: a stranger": (
        ("port", "stranger"),
        {"port": PortSeen(observed="strange", observed_url="http://e:8998")},
    ),
    "observed: nobody": (("port", "nobody"), {"port": PortSeen(observed="refused", observed_url="http://e:8998")}),
    "observed: silent": (("port", "silent"), {"port": PortSeen(observed="silent", observed_url="http://e:8998")}),
    "twins": (("tenant", "twins"), {"names": Names(twins=("q",), twin_of="http://e:1")}),
    "ambiguous": (("tenant", "ambiguous"), {"names": Names(True, ("q",), TOLD), "roster": Roster()}),
    "nobody came": (("registered", "nobody"), {"roster": Roster()}),
    "one never came": (("registered", "never"), {"roster": replace(WHOLE, registered=1, missing=("dp0 tp1",))}),
    "one was refused": (("registered", "refused"), {"roster": replace(WHOLE, registered=1, refusals=(TOLD,))}),
    "one died": (
        ("registered", "dead"),
        {"roster": replace(WHOLE, registered=1, gone=(Gone("dp0 tp1", "10.0.0.1:4001", "it refuses", 990.0),))},
    ),
    "stale port": (("answering", "stale"), {"roster": replace(WHOLE, seats=(replace(SEATS[0], contact="stranger"),))}),
    "silent": (("answering", "silent"), {"roster": replace(WHOLE, seats=(replace(SEATS[0], contact="silent"),))}),
    "refusing": (("answering", "refusing"), {"roster": replace(WHOLE, seats=(replace(SEATS[0], contact="refused"),))}),
    "partition": (
        ("answering", "partition"),
        {"roster": replace(WHOLE, seats=(replace(SEATS[0], contact="unreached"),))},
    ),
    "engine down": (("engine", "down"), {"engine": replace(UP, state=State.DOWN)}),
    "engine starts": (("engine", "starting"), {"engine": replace(UP, state=State.STARTING)}),
    "engine is another": (("engine", "stranger"), {"engine": replace(UP, state=State.STRANGER)}),
    "engine hangs": (("engine", "silent"), {"engine": replace(UP, state=State.SILENT)}),
    "cordoned": (("wanted", "cordoned"), {"wished": "cordoned", "wish": ", by anna: disk", "away": "p is cordoned"}),
    "proxy down": (("proxy", "proxy_down"), {"fronts": (replace(ROUTER, away=True, why="no usable answer"),)}),
    "router lacks it": (("router", "unlisted"), {"fronts": (replace(ROUTER, present=False, healthy=None),)}),
    "breaker open": (("breaker", "open"), {"shut": (Shut("router:r", "open"),)}),
    "breaker half open": (("breaker", "half_open"), {"shut": (Shut("router:r", "half_open"),)}),
    "loads stopped": (("policy", "stopped"), {"engine": replace(UP, loads_at=900.0)}),
    "requests do not get on": (
        ("policy", "held_up"),
        {"engine": replace(UP, counts={"bootstrap": 4, "held_up_since": 900})},
    ),
    "a dp rank stands still": (("policy", "still"), {"engine": replace(UP, counts={"still": 1, "still_dp": 3})}),
    "flush": (("health", "flushing"), {"health": 503, "health_since": 990.0}),
    "disagreement": (("health", "disagree"), {"fronts": (replace(ROUTER, healthy=False),)}),
    "misfit": (("pairs", "misfit"), {"misfits": ("d: page_size 16 and 64",), "fitting": 0}),
}


def asked(**changes: Any) -> Inquiry:
    return inquire(replace(WELL, **changes), now=NOW)


def test_doctests():
    for module in (inquiry, inquiry_arrival, inquiry_serving, questions):
        assert doctest.testmod(module).failed == 0


def test_the_questions_come_in_order_and_a_well_instance_is_yes_throughout():
    found = asked()
    assert tuple(answer.key for answer in found.answers) == KEYS
    assert {answer.verdict for answer in found.answers} == {Verdict.YES}
    assert (found.outcome.code, found.outcome.sentence) == ("well", "All 13 questions are answered with yes.")


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_alone_with_a_next_step(fault):
    cause, changes = FAULTS[fault]
    found = asked(**changes)
    assert [(answer.key, answer.code) for answer in found.causes] == [cause]
    end = found.outcome
    assert (end.key, end.code) == cause and end.also == ()
    assert end.next and end.head.endswith("? No.")
    assert not end.sentence.startswith(("router", "gateway", "nobody", "whoever")) and not end.sentence.endswith(".")


def test_every_word_that_explains_or_is_explained_exists():
    codes = {f"{key}.{code}" for (key, code), _ in FAULTS.values()} | {"proxy.all_down"}
    names = {*EXPLAINS, *(before for ones in EXPLAINS.values() for before in ones)}
    assert names <= codes | set(KEYS)


def test_two_faults_that_have_nothing_to_do_with_each_other_are_both_told():
    found = asked(shut=(Shut("router:r", "open", "5 of 6 failed"),), misfits=("d: page_size",), fitting=0)
    assert (found.outcome.code, found.outcome.also) == ("open", ("pairs",))
    assert "5 of 6 failed" in found.outcome.sentence


def test_what_an_earlier_fault_explains_says_which_one():
    died = FAULTS["one died"][1]
    found = asked(**died, engine=replace(UP, state=State.DOWN), shut=(Shut("g", "open"),), health=503)
    assert found.outcome.code == "dead" and found.outcome.also == ()
    assert {answer.key: answer.follows for answer in found.answers if answer.follows} == {
        "engine": "registered",
        "breaker": "registered",
        "health": "registered",
    }


def test_nobody_speaks_for_an_engine_that_was_never_asked():
    found = asked(engine=None, fronts=(), fitting=0)
    unseen = {answer.key for answer in found.answers if answer.verdict is Verdict.NOT_OBSERVED}
    assert unseen == {"engine", "proxy", "router", "breaker", "policy", "health", "pairs"}
    assert found.outcome.code == "well" and "not observed, and is not claimed" in found.outcome.sentence


def test_a_proxy_that_is_away_is_not_said_to_be_the_only_trouble_unless_the_engine_was_seen_well():
    away = (replace(ROUTER, away=True),)
    assert "only the proxy fails" in asked(fronts=away).outcome.sentence
    assert "whether its engine does is not observed" in asked(fronts=away, engine=None).outcome.sentence
    found = asked(fronts=away, engine=replace(UP, state=State.DOWN))
    assert found.outcome.key == "engine" and found["proxy"].follows == "engine"


def test_a_router_that_leaves_out_whom_we_keep_away_does_as_it_should():
    found = asked(
        fronts=(replace(ROUTER, present=False, healthy=None),), away="p is cordoned by anna", wished="cordoned"
    )
    assert found["router"].verdict is Verdict.YES and "as it should: p is cordoned by anna" in found["router"].sentence


def test_a_port_that_only_its_absence_speaks_of_is_no_fault():
    """Whose workers register here need no server of their own."""
    assert asked(port=PortSeen(holder="refused", held="e:8998"))["port"].verdict is Verdict.YES
    assert asked(port=PortSeen(holder="ours", held="e:8998", held_at=9.0))["port"].code == "ours"


def test_who_held_the_port_of_an_engine_that_does_not_answer_any_more_is_not_claimed():
    down = replace(UP, state=State.DOWN)
    for holder in ("stranger", "bootstrap", "ours"):
        found = asked(port=PortSeen(holder=holder, held="e:8998", held_at=9.0), engine=down)
        assert (found["port"].verdict, found["port"].old, found["port"].at) == (Verdict.NOT_OBSERVED, True, 9.0)
        assert found.outcome.code == "down"


def test_who_was_refused_after_a_rank_died_is_what_is_to_be_looked_at():
    gone = Gone("dp0 tp1", "10.0.0.1:4001", "it refuses", 980.0)
    roster = replace(WHOLE, registered=1, gone=(gone,), refusals=(TOLD,))
    assert asked(roster=roster)["registered"].code == "refused"
    assert asked(roster=replace(roster, gone=(replace(gone, at=995.0),)))["registered"].code == "dead"


def test_an_engine_that_is_asked_once_an_hour_tells_its_load_as_rarely():
    rarely = replace(UP, asked_at=100.0, loads_at=100.0)
    assert asked(engine=rarely)["policy"].verdict is Verdict.YES
    assert asked(engine=replace(rarely, old=True))["policy"].code == "old"
    assert asked(engine=replace(rarely, asked_at=990.0))["policy"].code == "stopped"


def test_of_ranks_that_are_read_at_their_own_server_nothing_is_claimed_before_it_was_read():
    seen = PortSeen(observed="unasked", observed_url="http://e:8998")
    assert asked(port=seen, roster=Roster())["registered"].verdict is Verdict.NOT_OBSERVED
    found = asked(port=replace(seen, observed="filling"), roster=Roster())
    assert found.outcome.code == "nobody" and "register at http://e:8998" in found.outcome.next


def test_of_partners_one_that_is_known_not_to_fit_is_said():
    found = asked(misfits=("d: page_size 16 and 64",), fitting=0, unsure=2)
    assert found["pairs"].verdict is Verdict.NOT_OBSERVED
    assert found["pairs"].sentence == (
        "It cannot work with d: page_size 16 and 64; of no other decode enough is known to compare"
    )


def test_some_ranks_of_a_host_and_all_of_a_host_are_two_things():
    cut = replace(SEATS[0], contact="unreached")
    whole = asked(roster=replace(WHOLE, seats=(cut, replace(SEATS[1], contact="unreached"))))
    assert whole.outcome.sentence == "10.0.0.1 cannot be reached from here: 2 of 2 ranks are cut off"
    some = asked(roster=replace(WHOLE, seats=(cut, SEATS[1])))
    assert some.outcome.sentence == "dp0 tp0 at 10.0.0.1:4000 cannot be reached from here"


def test_retired_is_the_whole_answer():
    found = asked(wished="retired", wish=", by anna")
    assert [answer.key for answer in found.answers] == ["wanted"] and found.outcome.code == "retired"


def test_what_follows_needs_a_cause_and_not_something_that_follows_itself():
    def no(key: str) -> Answer:
        return Answer(key, f"{key}?", Verdict.NO, "x", "It is not")

    first, second, third = told_apart([no("a"), no("b"), no("c")], {"b": ["a"], "c": ["b"]})
    assert (first.follows, second.follows, third.follows) == ("", "a", "")
    assert conclude([first, second, third]).outcome.also == ("c",)
