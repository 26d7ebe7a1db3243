"""The rank-mapping rules, one line a case. tests/compat compares them with SGLang itself."""

import doctest
from dataclasses import replace

import pytest

from controlplane.domain import rankmap
from controlplane.domain.errors import Refused
from controlplane.domain.rankmap import (
    DecodeRank,
    KvFacts,
    PrefillSizes,
    RankMapping,
    check_allocation,
    check_facts,
    map_ranks,
)

ONE = PrefillSizes(tp_size=1)
CP3 = PrefillSizes(tp_size=1, cp_size=3)
FIRST = DecodeRank(tp_size=1, engine_rank=0)


# fmt: off
TP_CASES = [
    # equal: the same rank; with DP attention the engine rank counts on past the group
    (1,  0, 1, False, 0, (0,),         1, 1),
    (4,  3, 4, False, 3, (3,),         1, 1),
    (4,  6, 4, False, 2, (2,),         1, 1),
    (4,  3, 4, True,  3, (3,),         1, 1),
    # decode larger: rank ÷ ratio, and the prefill rank waits for all that share it
    (8,  0, 2, False, 0, (0,),         4, 1),
    (8,  5, 2, False, 1, (1,),         4, 1),
    (8, 13, 2, True,  1, (1,),         4, 1),
    (6,  5, 3, False, 2, (2,),         2, 1),
    # prefill larger: a contiguous run; all of it answers, but only the first rank when MLA
    (1,  0, 4, False, 0, (0, 1, 2, 3), 1, 4),
    (2,  1, 4, False, 2, (2, 3),       1, 2),
    (2,  1, 4, True,  2, (2, 3),       1, 1),
    (3,  2, 6, True,  4, (4, 5),       1, 1),
]
# fmt: on


@pytest.mark.parametrize(
    ("tp", "engine_rank", "prefill_tp", "mla", "target", "targets", "dst_infos", "answers"),
    TP_CASES,
)
def test_a_decode_rank_meets_the_prefill_ranks_that_hold_its_heads(
    tp, engine_rank, prefill_tp, mla, target, targets, dst_infos, answers
):
    decode = DecodeRank(tp_size=tp, engine_rank=engine_rank, is_mla=mla)
    assert map_ranks(decode, PrefillSizes(tp_size=prefill_tp)) == RankMapping(
        target_tp_rank=target,
        target_tp_ranks=targets,
        target_cp_ranks=(0,),
        target_pp_ranks=(0,),
        required_dst_info_num=dst_infos,
        required_prefill_response_num=answers,
    )


def test_a_hybrid_model_is_not_mla_when_answers_are_counted():
    hybrid = DecodeRank(tp_size=2, engine_rank=1, is_hybrid_mla=True)
    assert map_ranks(hybrid, PrefillSizes(tp_size=4)).required_prefill_response_num == 2


def test_sharded_mla_pulls_from_every_prefill_rank_and_all_of_them_are_real():
    sharded = PrefillSizes(tp_size=4, kv_sharding=True)
    assert map_ranks(DecodeRank(tp_size=4, engine_rank=1, is_mla=True), sharded) == RankMapping(
        target_tp_rank=None,
        target_tp_ranks=(0, 1, 2, 3),
        target_cp_ranks=(0,),
        target_pp_ranks=(0,),
        required_dst_info_num=4,
        required_prefill_response_num=4,
    )


def test_sharding_changes_the_tp_rules_only_for_mla_and_only_without_cp():
    ordinary = (2,)
    rank = DecodeRank(tp_size=4, engine_rank=2)
    assert map_ranks(rank, PrefillSizes(tp_size=4, kv_sharding=True)).target_tp_ranks == ordinary
    with_cp = PrefillSizes(tp_size=4, cp_size=2, kv_sharding=True)
    assert map_ranks(replace(rank, is_mla=True), with_cp).target_tp_ranks == ordinary


# fmt: off
CP_CASES = [
    (FIRST,                              CP3,                             (0,),      1),
    (FIRST,                              replace(CP3, layer_split=True),  (0, 1, 2), 3),
    (FIRST,                              replace(CP3, kv_sharding=True),  (0, 1, 2), 3),
    (replace(FIRST, all_cp_ranks=True),  CP3,                             (0, 1, 2), 3),
    (replace(FIRST, is_hybrid_mla=True), CP3,                             (0, 1, 2), 3),
    (replace(FIRST, all_cp_ranks=True),  ONE,                             (0,),      1),
]
# fmt: on


@pytest.mark.parametrize(
    ("decode", "prefill", "cp_ranks", "answers"),
    CP_CASES,
)
def test_prefill_cp_ranks_are_all_asked_only_when_each_holds_a_part(decode, prefill, cp_ranks, answers):
    mapping = map_ranks(decode, prefill)
    assert (mapping.target_cp_ranks, mapping.required_prefill_response_num) == (cp_ranks, answers)


# fmt: off
PP_CASES = [
    (1, 0, 1, (0,),         1),
    (4, 2, 4, (2,),         1),
    (1, 0, 4, (0, 1, 2, 3), 4),
]
# fmt: on


@pytest.mark.parametrize(
    ("pp_size", "pp_rank", "prefill_pp", "pp_ranks", "answers"),
    PP_CASES,
)
def test_pipeline_stages_meet_their_own_or_one_meets_all(pp_size, pp_rank, prefill_pp, pp_ranks, answers):
    decode = replace(FIRST, pp_size=pp_size, pp_rank=pp_rank)
    mapping = map_ranks(decode, PrefillSizes(tp_size=1, pp_size=prefill_pp))
    assert (mapping.target_pp_ranks, mapping.required_prefill_response_num) == (pp_ranks, answers)


def test_answers_multiply_over_tp_cp_and_pp():
    prefill = PrefillSizes(tp_size=4, cp_size=2, pp_size=3, layer_split=True)
    mapping = map_ranks(DecodeRank(tp_size=2, engine_rank=0), prefill)
    assert mapping.required_prefill_response_num == 2 * 2 * 3


# fmt: off
REFUSALS = [
    (DecodeRank(tp_size=3, engine_rank=0), PrefillSizes(tp_size=2),
     "tp_not_divisible", "decode TP 3 and prefill TP 2 do not divide one another"),
    (DecodeRank(tp_size=2, engine_rank=0, is_mla=True), PrefillSizes(tp_size=3),
     "tp_not_divisible", "decode TP 2 and prefill TP 3 do not divide one another"),
    (DecodeRank(tp_size=2, engine_rank=0, is_mla=True), PrefillSizes(tp_size=4, kv_sharding=True),
     "sharding_needs_equal_tp", "prefill has 4, decode has 2"),
    (replace(FIRST, cp_size=2), PrefillSizes(tp_size=1, cp_size=2),
     "decode_cp", "decode CP must be 1, it is 2"),
    (replace(FIRST, pp_size=2), PrefillSizes(tp_size=1, pp_size=4),
     "pp_differs", "prefill has 4, decode has 2"),
    (replace(FIRST, pp_size=2), ONE,
     "pp_differs", "prefill has 1, decode has 2"),
    (replace(FIRST, pp_size=2, pp_rank=2), PrefillSizes(tp_size=1, pp_size=2),
     "bad_rank", "decode pp_rank 2 does not exist in PP 2"),
    (replace(FIRST, engine_rank=-1), ONE,
     "bad_rank", "decode engine_rank must not be negative, it is -1"),
    (FIRST, PrefillSizes(tp_size=0),
     "bad_size", "prefill tp_size must be at least 1, not 0"),
    (replace(FIRST, cp_size=0), ONE,
     "bad_size", "decode cp_size must be at least 1, not 0"),
]
# fmt: on


@pytest.mark.parametrize(
    ("decode", "prefill", "code", "sentence"),
    REFUSALS,
)
def test_what_has_no_right_answer_is_refused_with_a_sentence(decode, prefill, code, sentence):
    with pytest.raises(Refused) as refused:
        map_ranks(decode, prefill)
    assert refused.value.code == code
    assert sentence in refused.value.sentence


# fmt: off
FACTS = [
    ("page_size", 64, 64, True),
    ("page_size", 64, 32, False),
    ("page_size", 64, None, True),
    ("kv_cache_dtype", "fp8_e4m3", "fp8_e4m3", True),
    ("kv_cache_dtype", "auto", "fp8_e4m3", False),
    ("kv_layout", "hnd", "nhd", False),
    ("kv_layout", None, "nhd", True),
    ("kv_layout", "hnd", None, True),
    ("decode_allocation_policy", "early", "prefill_complete", False),
    ("decode_allocation_policy", "early", "early", True),
    ("decode_allocation_policy", None, "early", True),
]
# fmt: on


@pytest.mark.parametrize(
    ("field", "decode_value", "prefill_value", "agrees"),
    FACTS,
)
def test_facts_disagree_only_when_both_sides_state_them(field, decode_value, prefill_value, agrees):
    decode, prefill = KvFacts(**{field: decode_value}), KvFacts(**{field: prefill_value})
    if agrees:
        check_facts(decode, prefill)
        return
    with pytest.raises(Refused) as refused:
        check_facts(decode, prefill)
    said = f"{field} differs: prefill has {prefill_value}, decode has {decode_value}"
    assert refused.value.sentence == said


def test_prefill_complete_needs_a_prefill_of_one_rank_a_group():
    check_allocation("prefill_complete", ONE)
    check_allocation("early", PrefillSizes(tp_size=8, cp_size=2))
    for wider in (PrefillSizes(tp_size=2), replace(ONE, cp_size=2), replace(ONE, pp_size=2)):
        with pytest.raises(Refused, match="needs a prefill of TP 1, CP 1, PP 1"):
            check_allocation("prefill_complete", wider)


def test_the_examples_in_the_module_are_true():
    result = doctest.testmod(rankmap, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted > 10 and result.failed == 0
