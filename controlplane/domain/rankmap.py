"""Which prefill ranks one decode rank takes its KV cache from, by the rules of SGLang 0.5.23.

Source of the rules: `CommonKVManager._resolve_rank_mapping` and `try_ensure_parallel_info` in
sglang/srt/disaggregation/common/conn.py. Where SGLang fails an assertion, or divides sizes that do not
divide and names ranks that nobody has, this module refuses with a sentence.
"""

from dataclasses import dataclass

from controlplane.domain.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRank:
    """The decode rank that asks: its place, and how its engine keeps KV."""

    tp_size: int
    # The rank in the whole engine; with DP attention it counts on across the attention TP groups.
    engine_rank: int
    cp_size: int = 1
    pp_size: int = 1
    pp_rank: int = 0
    is_mla: bool = False
    is_hybrid_mla: bool = False
    # SGLANG_DISAGGREGATION_ALL_CP_RANKS_TRANSFER
    all_cp_ranks: bool = False

    @property
    def pulls_from_all_cp_ranks(self) -> bool:
        return self.all_cp_ranks or self.is_hybrid_mla


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSizes:
    """The attention sizes of a prefill instance, and how it spreads KV over its ranks."""

    tp_size: int
    cp_size: int = 1
    pp_size: int = 1
    layer_split: bool = False
    kv_sharding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KvFacts:
    """What both sides must agree on before a page of KV means the same to them; None is "not said"."""

    page_size: int | None = None
    kv_cache_dtype: str | None = None
    kv_layout: str | None = None
    decode_allocation_policy: str | None = None


@dataclass(frozen=True, slots=True)
class RankMapping:
    """Where one decode rank connects, and how many answers make its request whole.

    `target_tp_rank` is the one rank that sends for real; the others of `target_tp_ranks` get dummy requests
    when the model is MLA. None means that all of them send. A prefill rank waits for `required_dst_info_num`
    decode ranks; the decode rank waits for `required_prefill_response_num` prefill ranks.
    """

    target_tp_rank: int | None
    target_tp_ranks: tuple[int, ...]
    target_cp_ranks: tuple[int, ...]
    target_pp_ranks: tuple[int, ...]
    required_dst_info_num: int
    required_prefill_response_num: int


def map_ranks(decode: DecodeRank, prefill: PrefillSizes) -> RankMapping:
    """The prefill ranks that `decode` must reach in one DP group of `prefill`.

    Equal TP: the same rank.

    >>> map_ranks(DecodeRank(tp_size=4, engine_rank=3), PrefillSizes(tp_size=4)).target_tp_ranks
    (3,)

    Larger decode TP: several decode ranks share one prefill rank, which waits for all of them.

    >>> mapping = map_ranks(DecodeRank(tp_size=8, engine_rank=5), PrefillSizes(tp_size=2))
    >>> mapping.target_tp_ranks, mapping.required_dst_info_num
    ((1,), 4)

    Larger prefill TP: a contiguous run. Every rank of it answers, but only the first one for MLA.

    >>> mapping = map_ranks(DecodeRank(tp_size=2, engine_rank=1), PrefillSizes(tp_size=4))
    >>> mapping.target_tp_ranks, mapping.required_prefill_response_num
    ((2, 3), 2)
    >>> mapping = map_ranks(DecodeRank(tp_size=2, engine_rank=1, is_mla=True), PrefillSizes(tp_size=4))
    >>> mapping.target_tp_rank, mapping.target_tp_ranks, mapping.required_prefill_response_num
    (2, (2, 3), 1)

    Prefill context parallelism: rank 0 alone, or all of them when each holds a part.

    >>> map_ranks(DecodeRank(tp_size=1, engine_rank=0), PrefillSizes(tp_size=1, cp_size=2)).target_cp_ranks
    (0,)
    >>> parts = PrefillSizes(tp_size=1, cp_size=2, layer_split=True)
    >>> map_ranks(DecodeRank(tp_size=1, engine_rank=0), parts).target_cp_ranks
    (0, 1)

    Raises Refused when there is no right answer.

    >>> map_ranks(DecodeRank(tp_size=3, engine_rank=0), PrefillSizes(tp_size=2))
    Traceback (most recent call last):
    controlplane.domain.errors.Refused: decode TP 3 and prefill TP 2 do not divide one another, so no ...
    """
    _check_places(decode, prefill)
    tp_rank, tp_ranks, dst_infos, tp_answers = _map_tp(decode, prefill)
    cp_ranks, cp_answers = _map_cp(decode, prefill)
    pp_ranks, pp_answers = _map_pp(decode, prefill)
    return RankMapping(
        target_tp_rank=tp_rank,
        target_tp_ranks=tp_ranks,
        target_cp_ranks=cp_ranks,
        target_pp_ranks=pp_ranks,
        required_dst_info_num=dst_infos,
        required_prefill_response_num=tp_answers * cp_answers * pp_answers,
    )


def check_facts(decode: KvFacts, prefill: KvFacts) -> None:
    """Refuse a pair that reads KV differently; a fact that one side does not state cannot disagree.

    >>> check_facts(KvFacts(page_size=64), KvFacts(page_size=64, kv_layout="hnd"))
    >>> check_facts(KvFacts(page_size=64), KvFacts(page_size=32))
    Traceback (most recent call last):
    controlplane.domain.errors.Refused: page_size differs: prefill has 32, decode has 64
    """
    for name in KvFacts.__slots__:
        theirs, ours = getattr(prefill, name), getattr(decode, name)
        if theirs is not None and ours is not None and theirs != ours:
            raise Refused(f"{name} differs: prefill has {theirs}, decode has {ours}", code="facts_differ")


def check_allocation(policy: str, prefill: PrefillSizes) -> None:
    """Refuse `prefill_complete` towards a prefill of more than one rank a DP group.

    >>> check_allocation("early", PrefillSizes(tp_size=8))
    >>> check_allocation("prefill_complete", PrefillSizes(tp_size=8))
    Traceback (most recent call last):
    controlplane.domain.errors.Refused: decode_allocation_policy prefill_complete needs a prefill of TP 1, ...
    """
    if policy == "prefill_complete" and (prefill.tp_size, prefill.cp_size, prefill.pp_size) != (1, 1, 1):
        raise Refused(
            "decode_allocation_policy prefill_complete needs a prefill of TP 1, CP 1, PP 1, "
            f"this one has TP {prefill.tp_size}, CP {prefill.cp_size}, PP {prefill.pp_size}",
            code="policy_needs_one_rank",
        )


def _check_places(decode: DecodeRank, prefill: PrefillSizes) -> None:
    for side, sizes in (("decode", decode), ("prefill", prefill)):
        for name in ("tp_size", "cp_size", "pp_size"):
            size = getattr(sizes, name)
            if size < 1:
                raise Refused(f"{side} {name} must be at least 1, not {size}", code="bad_size")
    rank, stage = decode.engine_rank, decode.pp_rank
    if rank < 0:
        raise Refused(f"decode engine_rank must not be negative, it is {rank}", code="bad_rank")
    if not 0 <= stage < decode.pp_size:
        raise Refused(f"decode pp_rank {stage} does not exist in PP {decode.pp_size}", code="bad_rank")


def _map_tp(decode: DecodeRank, prefill: PrefillSizes) -> tuple[int | None, tuple[int, ...], int, int]:
    """-> the real target, all targets, decode ranks a prefill rank waits for, answers to wait for."""
    ours, theirs = decode.tp_size, prefill.tp_size
    rank = decode.engine_rank % ours
    # With CP above 1 the shards lie along CP, and the TP rules are the usual ones.
    if decode.is_mla and prefill.kv_sharding and prefill.cp_size == 1:
        if ours != theirs:
            raise Refused(
                "MLA with KV cache sharding needs equal attention TP on both sides: "
                f"prefill has {theirs}, decode has {ours}",
                code="sharding_needs_equal_tp",
            )
        return None, tuple(range(theirs)), ours, theirs
    if max(ours, theirs) % min(ours, theirs):
        # SGLang rounds down here. A larger decode TP then asks for a prefill rank that does not exist,
        # a larger prefill TP leaves its last ranks unasked, and they wait until their time-out.
        raise Refused(
            f"decode TP {ours} and prefill TP {theirs} do not divide one another, so no whole number "
            "of ranks on one side serves a rank on the other",
            code="tp_not_divisible",
        )
    if ours >= theirs:
        ratio = ours // theirs
        return rank // ratio, (rank // ratio,), ratio, 1
    ratio = theirs // ours
    run = tuple(range(rank * ratio, (rank + 1) * ratio))
    # MLA keeps the whole cache on every TP rank: the first one sends, the others are only told.
    return run[0], run, 1, 1 if decode.is_mla else ratio


def _map_cp(decode: DecodeRank, prefill: PrefillSizes) -> tuple[tuple[int, ...], int]:
    if decode.cp_size != 1:
        raise Refused(f"decode CP must be 1, it is {decode.cp_size}", code="decode_cp")
    if decode.pulls_from_all_cp_ranks or prefill.layer_split or prefill.kv_sharding:
        return tuple(range(prefill.cp_size)), prefill.cp_size
    return (0,), 1


def _map_pp(decode: DecodeRank, prefill: PrefillSizes) -> tuple[tuple[int, ...], int]:
    if decode.pp_size == prefill.pp_size:
        return (decode.pp_rank,), 1
    if decode.pp_size == 1:
        return tuple(range(prefill.pp_size)), prefill.pp_size
    raise Refused(
        f"decode PP must be 1 or equal to prefill PP: prefill has {prefill.pp_size}, decode has {decode.pp_size}",
        code="pp_differs",
    )
