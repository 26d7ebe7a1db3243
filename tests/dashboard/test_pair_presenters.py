"""What pages of rooms, pairs and weights make of rows: words, tones and short reasons, without a database."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain.compatibility import compare
from controlplane.domain.decodes import NOBODY_SAID, UNKNOWN, Decode
from controlplane.domain.disagreement import Effect, Finding, Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.evidence import Displaced, Held, Said, ladder
from controlplane.domain.room_timeline import timeline
from controlplane.domain.topology import SharedFacts, Topology
from dashboard.presenters import describing, evidence, pair_facts, pairs, published, sheets
from dashboard.presenters.states import STATES

PREFILL = Prefill(Topology(2, 2, 4, 2), SharedFacts(64, "auto"))
DECODE = Decode(
    tp_size=4, cp_size=1, pp_size=2, is_mla=False, page_size=64, kv_cache_dtype="auto", kv_layout=None,
    dsv41_spec_layout=None, decode_allocation_policy="early",
)  # fmt: skip
HERE = Held("p", 1, 100.0, True, 3, 4, False, "")


@pytest.mark.parametrize("module", [describing, evidence, pair_facts, pairs, published, sheets])
def test_examples_hold(module):
    assert doctest.testmod(module).failed == 0


def test_the_line_of_the_ladder_is_dashed_from_the_first_gap_on():
    views = evidence.rung_views(ladder(9, [HERE]))
    assert [(view.number, view.tone, view.state, view.cut) for view in views] == [
        (1, "ok", "passed", True), (2, "none", "", True), (3, "none", "", True), (4, "none", "", True), (5, "none", "", True),
    ]  # fmt: skip
    assert views[0].at == 100.0 and views[1].at is None


def test_a_moment_says_how_long_after_the_one_before_that_is_known():
    told = [Said("connected", "passed", "d", "p", 103.5), Said("consumed", "passed", "d", "p", 104.0)]
    since = [(view.name, view.since) for view in evidence.moment_views(timeline([HERE], told))]
    assert since == [
        ("created", ""), ("registered", "+0.000 s"), ("first asked", ""), ("answered", ""), ("connected", "+3.500 s"),
        ("verified", ""), ("finished", "+0.500 s"),
    ]  # fmt: skip


def test_a_failure_is_red_and_a_room_that_nobody_holds_is_not_called_bound():
    failed = ladder(9, [HERE], said=[Said("connected", "failed", "d", "p", 101.0)])
    assert (evidence.rung_views(failed)[2].state, evidence.tone_of(failed.conclusion)) == ("failed", "bad")
    stops = ladder(9, [], said=[Said("registered", "passed", "p", "p", 101.0)], now=110.0).conclusion
    assert (evidence.word_of(stops), evidence.word_of(stops, live=False)) == ("bound", "reported")


def test_a_rung_that_is_proven_and_in_doubt_says_both_by_its_word():
    doubtful = evidence.rung_views(ladder(9, [replace(HERE, displaced=(Displaced(0, 1, 99.0),))]))[0]
    assert (doubtful.tone, doubtful.state) == ("warn", "in_doubt")
    over = evidence.rung_views(ladder(9, [replace(HERE, live=False)]))[0]
    assert (over.tone, over.state) == ("none", "expired")


def results(decode: Decode) -> dict[str, str]:
    return {view.name: view.result for view in pair_facts.fact_views(PREFILL, decode, compare(decode, PREFILL))}


def test_every_fact_has_a_result_of_the_table_of_states():
    agree = results(DECODE)
    assert agree == {
        "page_size": "equal", "kv_cache_dtype": "equal", "kv_layout": "equal", "dsv41_spec_layout": "equal",
        "tp_size": "equal", "cp_size": "fits", "pp_size": "equal", "decode_allocation_policy": "equal",
    }  # fmt: skip
    differ = results(replace(DECODE, page_size=32, kv_layout="hnd", tp_size=8))
    assert (differ["page_size"], differ["kv_layout"], differ["tp_size"]) == ("differs", "unproven", "costly")
    silent = results(NOBODY_SAID)
    assert (silent["page_size"], silent["pp_size"], silent["decode_allocation_policy"]) == (
        "not_said", "not_needed", "not_needed",
    )  # fmt: skip
    assert {*agree.values(), *differ.values(), *silent.values()} <= STATES.keys()


def test_only_what_decides_is_marked_and_other_findings_follow():
    decode = replace(DECODE, page_size=32, tp_size=3, is_mla=UNKNOWN, dcp_size=2)
    views = pair_facts.fact_views(PREFILL, decode, compare(decode, PREFILL))
    assert [view.name for view in views if view.hit] == ["page_size"]
    assert views[-1].name == "dcp_size" and "needs prefill CP 1" in views[-1].rule


@pytest.mark.parametrize(
    ("decode", "flag"),
    [
        (replace(DECODE, page_size=32), "--page-size 64"),
        (replace(DECODE, kv_cache_dtype="fp8_e4m3"), "--kv-cache-dtype auto"),
        (replace(DECODE, pp_size=3), "--pp-size 2"),
        (replace(DECODE, tp_size=3), ""),
        (DECODE, ""),
    ],
)
def test_the_argument_that_would_make_it_fit_is_named_when_there_is_one(decode, flag):
    assert pair_facts.flag_of(compare(decode, PREFILL)) == flag


def test_who_sends_to_whom_is_said_an_axis_a_line():
    assert dict(pair_facts.mapping_lines(PREFILL, replace(DECODE, tp_size=2, pp_size=1, is_mla=True))) == {
        "dp": "room mod 2 says the DP group of the prefill",
        "tp": "each of 2 decode ranks connects to 2 of 4: the first of them sends, the others are told",
        "cp": "cp0 sends, the others stay silent",
        "pp": "all 2 stages send",
    }
    shared = dict(pair_facts.mapping_lines(PREFILL, replace(DECODE, tp_size=8)))
    assert shared["tp"] == "each of 4 prefill ranks sends to 2 of 8" and shared["pp"] == "stage n sends to stage n"
    assert pair_facts.mapping_lines(PREFILL, replace(DECODE, tp_size=3))[0][0] == "none"
    assert "nobody said" in pair_facts.mapping_lines(PREFILL, NOBODY_SAID)[0][1]


def test_a_reason_in_a_cell_is_short():
    assert (
        pairs.in_short(Finding("page_size", Effect.DECODE_DIES, 64, 32, "page_size differs: …")) == "page_size 64 ≠ 32"
    )
    long = Finding("x", Effect.HANGS, 1, 2, "a" * 200)
    assert len(pairs.in_short(long)) <= 90


def test_a_description_that_cannot_be_meant_is_refused_by_the_name_of_the_field():
    for query in ({"as.tp_size": "four"}, {"as.page_size": "0"}, {"as.is_mla": "1"}, {"as.tp_size": "9" * 11}):
        with pytest.raises(Refused) as refused:
            describing.described(query)
        assert next(iter(query)).removeprefix("as.") in refused.value.sentence
    assert describing.described({"as.kv_layout": "none"}).said == {"kv_layout": None}
