"""Which pairs of prefill and decode work, what SGLang does about those that do not, and what nobody knows."""

import doctest
import json
from dataclasses import replace

import pytest

from controlplane.domain import compatibility, decodes
from controlplane.domain.compatibility import CHECKS, check, compare
from controlplane.domain.decodes import NOBODY_SAID, UNKNOWN, Decode, read, stored
from controlplane.domain.disagreement import Effect, Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.topology import SharedFacts, Topology

FACTS = SharedFacts(64, "auto", kv_layout="nhd")
PREFILL = Prefill(Topology(2, 1, 4, 1), FACTS)
DECODE = Decode(
    tp_size=4,
    cp_size=1,
    pp_size=1,
    is_mla=False,
    is_hybrid_mla=False,
    page_size=64,
    kv_cache_dtype="auto",
    kv_layout="nhd",
    dsv41_spec_layout=None,
    decode_allocation_policy="early",
)
SPARK = json.dumps({"block": 4, "draft": "x"})


def prefill(topology: Topology = PREFILL.topology, **facts) -> Prefill:
    return Prefill(topology, replace(FACTS, **facts))


def found(decode: Decode, of: Prefill = PREFILL) -> list[tuple[str, Effect]]:
    return [(finding.field, finding.effect) for finding in compare(decode, of).findings]


@pytest.mark.parametrize("module", [compatibility, decodes])
def test_examples_hold(module):
    assert doctest.testmod(module).failed == 0


def test_a_pair_that_agrees_has_nothing_to_say():
    assert compare(DECODE, PREFILL).findings == ()
    assert compare(DECODE, PREFILL).verdict == "compatible"
    assert check(DECODE, PREFILL) == ()


DIES, FAILS, HANGS = Effect.DECODE_DIES, Effect.REQUEST_FAILS, Effect.HANGS
MLA = replace(DECODE, is_mla=True)
DISAGREE = [
    (replace(DECODE, page_size=32), PREFILL, "page_size", DIES, "page_size differs: prefill has 64, decode has 32"),
    (replace(DECODE, page_size=None), PREFILL, "page_size", DIES, "page_size differs: prefill has 64, decode has None"),
    (
        replace(DECODE, kv_cache_dtype="fp8_e4m3"),
        PREFILL,
        "kv_cache_dtype",
        DIES,
        "kv_cache_dtype differs: prefill has auto, decode has fp8_e4m3",
    ),
    (
        replace(DECODE, kv_layout="hnd"),
        PREFILL,
        "kv_layout",
        DIES,
        "kv_layout differs: prefill has nhd, decode has hnd",
    ),
    (
        replace(DECODE, dsv41_spec_layout=SPARK),
        PREFILL,
        "dsv41_spec_layout",
        DIES,
        "dsv41_spec_layout differs (block, draft)",
    ),
    (
        replace(DECODE, decode_allocation_policy="prefill_complete"),
        PREFILL,
        "decode_allocation_policy",
        FAILS,
        "decode_allocation_policy differs: prefill has early, decode has prefill_complete",
    ),
    (
        replace(DECODE, decode_allocation_policy="prefill_complete"),
        prefill(decode_allocation_policy="prefill_complete"),
        "decode_allocation_policy",
        FAILS,
        "decode_allocation_policy prefill_complete needs a prefill of TP 1, CP 1, PP 1, this one has TP 4, CP 1, PP 1",
    ),
    (replace(DECODE, tp_size=6), PREFILL, "tp_size", FAILS, "decode TP 6 and prefill TP 4 do not divide one another"),
    (replace(DECODE, tp_size=3), PREFILL, "tp_size", HANGS, "decode TP 3 and prefill TP 4 do not divide one another"),
    (
        replace(MLA, tp_size=2),
        prefill(enable_kv_cache_sharding=True),
        "tp_size",
        DIES,
        "MLA with KV cache sharding needs equal attention TP on both sides: prefill has 4, decode has 2",
    ),
    (replace(DECODE, cp_size=2), PREFILL, "cp_size", DIES, "decode CP must be 1, it is 2"),
    (
        replace(DECODE, pp_size=2),
        prefill(Topology(1, 1, 4, 4)),
        "pp_size",
        DIES,
        "decode PP must be 1 or equal to prefill PP: prefill has 4, decode has 2",
    ),
    (
        replace(DECODE, tp_size=2, state_types=frozenset({"minimax_index_k"})),
        PREFILL,
        "tp_size",
        DIES,
        "MiniMax sparse attention needs equal TP: prefill has 4, decode has 2",
    ),
    (
        replace(DECODE, tp_size=2, state_types=frozenset({"block_scale"})),
        PREFILL,
        "tp_size",
        DIES,
        "an MXFP8 KV cache needs equal TP: prefill has 4, decode has 2",
    ),
    (replace(DECODE, dcp_size=2), PREFILL, "dcp_size", DIES, "decode DCP 2 needs an MLA model"),
    (
        replace(MLA, dcp_size=2),
        prefill(Topology(1, 2, 4, 1)),
        "dcp_size",
        DIES,
        "decode DCP 2 needs prefill CP 1, it is 2",
    ),
]


@pytest.mark.parametrize(("decode", "of", "field", "effect", "sentence"), DISAGREE)
def test_what_disagrees_is_named_with_what_sglang_does(decode, of, field, effect, sentence):
    pair = compare(decode, of)
    assert pair.verdict == "incompatible"
    why_not = pair.why_not
    assert (why_not.field, why_not.effect) == (field, effect)
    assert why_not.sentence.startswith(sentence)
    with pytest.raises(Refused) as refused:
        check(decode, of)
    assert refused.value.code == "conflict"
    assert why_not.what_happens in refused.value.sentence


def test_kv_of_another_model_is_told_though_nobody_compares_it():
    serves = replace(PREFILL, model="/mnt/a/Qwen3-32B")
    other = compare(replace(DECODE, model="llama-3"), serves)
    assert (other.verdict, other.outlook) == ("compatible", "unproven")
    assert other.telling.sentence == "the models differ: prefill serves /mnt/a/Qwen3-32B, decode serves llama-3"
    # The same weights lie elsewhere on another host; and what nobody said cannot differ.
    for decode, of in (
        (replace(DECODE, model="Qwen/qwen3-32b/"), serves),
        (DECODE, serves),
        (replace(DECODE, model="x"), PREFILL),
    ):
        assert compare(decode, of).findings == ()
    assert read({"model": "llama-3"}).said == {"model": "llama-3"}


def test_the_first_of_several_is_the_one_that_sglang_meets_first():
    worst = replace(DECODE, decode_allocation_policy="prefill_complete", page_size=1, tp_size=3, kv_cache_dtype="bf16")
    assert [field for field, _ in found(worst)] == [
        "page_size",
        "kv_cache_dtype",
        "tp_size",
        "decode_allocation_policy",
    ]
    assert len(CHECKS) == 12


def test_what_one_side_leaves_open_is_not_compared_by_sglang_and_could_be_wrong_silently():
    assert found(replace(DECODE, kv_layout=None)) == [("kv_layout", Effect.WRONG_KV)]
    assert found(DECODE, prefill(kv_layout=None)) == [("kv_layout", Effect.WRONG_KV)]
    assert found(DECODE, prefill(kv_cache_dtype=None)) == [("kv_cache_dtype", Effect.WRONG_KV)]
    assert compare(replace(DECODE, kv_layout=None), PREFILL).verdict == "compatible"
    # Both have no such thing.
    assert found(replace(DECODE, kv_layout=None), prefill(kv_layout=None)) == []


def test_tp_sizes_may_differ_where_they_divide_and_only_some_models_are_slower():
    for tp in (1, 2, 8):
        assert found(replace(DECODE, tp_size=tp)) == [("tp_size", Effect.SLOWER)]
        assert found(replace(MLA, tp_size=tp)) == []
        assert found(replace(DECODE, tp_size=tp, is_hybrid_mla=True)) == []


def test_dspark_wants_the_same_tp_or_all_context_ranks_for_mla():
    of = prefill(Topology(1, 2, 4, 1), dsv41_spec_layout=SPARK)
    spark = replace(DECODE, dsv41_spec_layout=SPARK)
    assert found(spark, of) == []
    assert ("tp_size", DIES) in found(replace(spark, tp_size=8), of)
    assert found(replace(spark, tp_size=8, is_mla=True), of) == []
    assert ("tp_size", DIES) in found(replace(spark, tp_size=2, is_mla=True), of)


def test_what_nobody_said_is_unknown_and_not_assumed():
    nobody = compare(NOBODY_SAID, PREFILL)
    assert nobody.verdict == "unknown"
    assert found(NOBODY_SAID) == [
        ("page_size", Effect.UNKNOWN),
        ("kv_cache_dtype", Effect.UNKNOWN),
        ("kv_layout", Effect.UNKNOWN),
        ("tp_size", Effect.UNKNOWN),
    ]
    # One fact that is known and differs is enough.
    assert compare(replace(NOBODY_SAID, page_size=1), PREFILL).verdict == "incompatible"
    # Whether it is MLA matters only where the answer depends on it.
    sharded = prefill(enable_kv_cache_sharding=True)
    assert found(replace(DECODE, is_mla=UNKNOWN)) == []
    assert found(replace(DECODE, is_mla=UNKNOWN, tp_size=2), sharded) == [("is_mla", Effect.UNKNOWN)]
    assert ("decode_allocation_policy", Effect.UNKNOWN) in found(
        replace(DECODE, decode_allocation_policy=UNKNOWN), prefill(Topology(1, 1, 1, 1), decode_allocation_policy="x")
    )
    assert check(NOBODY_SAID, PREFILL) == nobody.findings


def test_a_decode_reads_itself_from_json_and_says_only_what_it_was_told():
    given = {"tp_size": 8, "is_mla": True, "dsv41_spec_layout": {"b": 1, "a": "ü"}, "state_types": ["dsa"]}
    decode = read(given)
    assert decode.dsv41_spec_layout == '{"a":"ü","b":1}'
    assert decode.said == {**given, "dsv41_spec_layout": '{"a":"ü","b":1}'}
    assert decode.page_size is UNKNOWN
    assert decode.rank(5, 0).is_mla and decode.rank(5, 0).pp_size == 1


BAD = [
    ({"tp_size": "4"}, "tp_size must be an integer"),
    ({"tp_size": True}, "tp_size must be an integer"),
    ({"tp_size": 0}, "tp_size must be an integer"),
    ({"tp_size": 10**9}, "tp_size must be an integer"),
    ({"is_mla": 1}, "is_mla must be true or false"),
    ({"kv_layout": ""}, "kv_layout must be text"),
    ({"kv_cache_dtype": "a\x1b"}, "kv_cache_dtype must be text"),
    ({"decode_allocation_policy": None}, "decode_allocation_policy must be text"),
    ({"dsv41_spec_layout": []}, "dsv41_spec_layout must be an object"),
    ({"dsv41_spec_layout": {"a": "x" * 9000}}, "dsv41_spec_layout is larger"),
    ({"dsv41_spec_layout": {"a": float("nan")}}, "dsv41_spec_layout is not JSON"),
    ({"state_types": "dsa"}, "state_types must be a list"),
    ({"page_sise": 4}, "a decode has no 'page_sise'"),
]


@pytest.mark.parametrize(("given", "sentence"), BAD)
def test_what_cannot_be_is_refused_with_the_name_of_the_field(given, sentence):
    with pytest.raises(Refused, match=sentence) as refused:
        read(given)
    assert refused.value.code == "malformed"


def test_a_decode_that_registered_is_known_but_for_its_model():
    decode = stored(Topology(1, 1, 2, 1), FACTS)
    assert (decode.tp_size, decode.page_size, decode.is_mla) == (2, 64, UNKNOWN)
    assert found(decode, PREFILL) == []


def test_a_compatible_pair_may_still_be_costly_or_rest_on_what_nobody_compares():
    cases = [
        (DECODE, PREFILL, "compatible", None),
        (replace(DECODE, tp_size=2), PREFILL, "costly", "tp_size"),
        (replace(DECODE, tp_size=2, kv_layout=None), PREFILL, "unproven", "kv_layout"),
        (replace(DECODE, tp_size=2, kv_layout=UNKNOWN), PREFILL, "unknown", "kv_layout"),
        (replace(DECODE, tp_size=3, kv_layout=UNKNOWN), PREFILL, "incompatible", "tp_size"),
    ]
    for decode, of, outlook, field in cases:
        seen = compare(decode, of)
        assert (seen.outlook, seen.telling.field if seen.telling else None) == (outlook, field)
