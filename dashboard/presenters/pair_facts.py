"""One pair, fact by fact: what each side has, how they compare, by which rule, and which ranks would send to which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain.compatibility import Compatibility
from controlplane.domain.decodes import UNKNOWN, Decode
from controlplane.domain.disagreement import Effect, Finding, Prefill
from controlplane.domain.errors import Refused
from controlplane.domain.rankmap import RankMapping, map_ranks


@dataclass(frozen=True, slots=True)
class FactView:
    """`result` is a word of the table of states; `hit` marks what decides."""

    name: str
    prefill: str
    decode: str
    result: str
    rule: str
    hit: bool


@dataclass(frozen=True, slots=True)
class _Fact:
    of_prefill: Callable[[Prefill], Any]
    rule: str


FACTS: Mapping[str, _Fact] = {
    "page_size": _Fact(lambda p: p.facts.page_size, "must be equal"),
    "kv_cache_dtype": _Fact(lambda p: p.facts.kv_cache_dtype, "must be equal"),
    "kv_layout": _Fact(lambda p: p.facts.kv_layout, "equal when both say it"),
    "dsv41_spec_layout": _Fact(lambda p: p.facts.dsv41_spec_layout, "equal, and TP too when one has it"),
    "tp_size": _Fact(lambda p: p.topology.tp, "one divides the other"),
    "cp_size": _Fact(lambda p: p.topology.cp, "decode has 1"),
    "pp_size": _Fact(lambda p: p.topology.pp, "equal, or decode has 1"),
    "decode_allocation_policy": _Fact(lambda p: p.facts.decode_allocation_policy, "must be equal"),
}
RESULTS = {
    Effect.DECODE_DIES: "differs",
    Effect.REQUEST_FAILS: "differs",
    Effect.HANGS: "differs",
    Effect.WRONG_KV: "unproven",
    Effect.SLOWER: "costly",
    Effect.UNKNOWN: "not_said",
}
FLAGS = {
    "page_size": "--page-size",
    "kv_cache_dtype": "--kv-cache-dtype",
    "pp_size": "--pp-size",
    "decode_allocation_policy": "--disaggregation-decode-allocation-policy",
}
"""Arguments of SGLang that set what a decode has; TP is not among them: with DP attention it is a share of `--tp`."""


def fact_views(prefill: Prefill | None, decode: Decode, found: Compatibility) -> list[FactView]:
    """Every fact that is compared, then whatever else a finding is about."""
    findings: dict[str, Finding] = {}
    for finding in found.findings:
        findings.setdefault(finding.field, finding)
    views = (
        [_view(name, fact, prefill, decode, findings, found.telling) for name, fact in FACTS.items()] if prefill else []
    )
    return views + [
        FactView(
            name,
            _text(finding.prefill),
            _text(finding.decode),
            RESULTS[finding.effect],
            finding.sentence,
            finding is found.telling,
        )
        for name, finding in findings.items()
        if prefill is None or name not in FACTS
    ]


def _view(
    name: str, fact: _Fact, prefill: Prefill, decode: Decode, findings: Mapping[str, Finding], telling: Finding | None
) -> FactView:
    theirs, ours = fact.of_prefill(prefill), getattr(decode, name)
    finding = findings.get(name)
    if finding is not None:
        result = RESULTS[finding.effect]
    elif ours is UNKNOWN:
        # Nothing hangs on it with this prefill.
        result = "not_needed"
    else:
        result = "equal" if ours == theirs else "fits"
    return FactView(name, _text(theirs), _text(ours), result, fact.rule, finding is not None and finding is telling)


def _text(value: Any) -> str:
    """
    >>> _text(UNKNOWN), _text(None), _text(64)
    ('not said', 'none', '64')
    """
    if value is UNKNOWN:
        return "not said"
    return "none" if value is None else str(value)


def flag_of(found: Compatibility) -> str:
    """The argument with which the decode would fit, if one is known: `--page-size 64`."""
    why = found.why_not
    if why is None or why.field not in FLAGS or why.prefill is None or why.decode == why.prefill:
        return ""
    return f"{FLAGS[why.field]} {why.prefill}"


def mapping_lines(prefill: Prefill, decode: Decode) -> list[tuple[str, str]]:
    """Which ranks send to which, an axis a line; a single sentence when there is no answer."""
    if decode.tp_size is UNKNOWN:
        return [("tp", "depends on the TP size of the decode, which nobody said")]
    try:
        where = map_ranks(decode.rank(0, 0), prefill.sizes)
    except Refused as refused:
        return [("none", refused.sentence)]
    return [
        ("dp", _dp(prefill)),
        ("tp", _tp(prefill, decode, where)),
        ("cp", _cp(prefill, where)),
        ("pp", _pp(prefill, where)),
    ]


def _dp(prefill: Prefill) -> str:
    size = prefill.topology.dp
    if size == 1:
        return "one DP group"
    if prefill.facts.follow_bootstrap_room:
        return f"room mod {size} says the DP group of the prefill"
    return f"the prefill binds each room to one of its {size} DP groups; decodes ask"


def _tp(prefill: Prefill, decode: Decode, where: RankMapping) -> str:
    theirs, ours, several = prefill.topology.tp, decode.tp_size, len(where.target_tp_ranks)
    if several > 1:
        sends = (
            "the first of them sends, the others are told"
            if where.target_tp_rank is not None and decode.is_mla is True
            else "all of them send"
        )
        return f"each of {ours} decode ranks connects to {several} of {theirs}: {sends}"
    if where.required_dst_info_num > 1:
        return f"each of {theirs} prefill ranks sends to {where.required_dst_info_num} of {ours}"
    return f"rank n sends to rank n, {theirs} of {theirs}"


def _cp(prefill: Prefill, where: RankMapping) -> str:
    size = prefill.topology.cp
    if size == 1:
        return "one rank"
    return "cp0 sends, the others stay silent" if len(where.target_cp_ranks) == 1 else f"all {size} send their part"


def _pp(prefill: Prefill, where: RankMapping) -> str:
    stages = len(where.target_pp_ranks)
    if prefill.topology.pp == 1:
        return "one stage"
    return "stage n sends to stage n" if stages == 1 else f"all {stages} stages send"
