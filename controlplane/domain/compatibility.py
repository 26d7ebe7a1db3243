"""Whether a decode can take KV from a prefill: what disagrees, and what SGLang would do about it.

Source: sglang 0.5.23, srt/disaggregation/common/conn.py. A decode reads a prefill's topology once, in
`CommonKVManager.try_ensure_parallel_info`, from the scheduler's own loop (decode.py, `_resolve_pending_reqs`): what raises
there ends the decode process, with every request in it. `CommonKVReceiver.init` looks at the allocation policy, request by
request. What neither of them compares is found out by wrong answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .decodes import UNKNOWN, Decode, or_else
from .disagreement import Effect, Finding, Prefill
from .errors import Refused
from .rankmap import DecodeRank, PrefillSizes, check_allocation, map_ranks

MILD = {Effect.WRONG_KV: "unproven", Effect.SLOWER: "costly"}
"""What a pair is that works, and yet is not simply compatible."""

OUTLOOKS = ("incompatible", "unproven", "costly", "unknown", "compatible")
"""The worst first, as an operator looks."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """`findings` stand in the order in which SGLang would meet them: the first fatal one is what happens."""

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """compatible, incompatible, or unknown: nothing speaks against it, but not all that decides is known."""
        if any(finding.fatal for finding in self.findings):
            return "incompatible"
        return "unknown" if any(f.effect is Effect.UNKNOWN for f in self.findings) else "compatible"

    @property
    def why_not(self) -> Finding | None:
        return next((finding for finding in self.findings if finding.fatal), None)

    @property
    def telling(self) -> Finding | None:
        """The finding that decides, by how much harm it does: what kills, what nobody knows, what nobody compares, what
        is slow."""
        if self.why_not is not None:
            return self.why_not
        return next((f for effect in (Effect.UNKNOWN, *MILD) for f in self.findings if f.effect is effect), None)

    @property
    def outlook(self) -> str:
        """The verdict, told apart further: a compatible pair may be unproven (a fact that SGLang does not compare) or
        costly."""
        told = self.telling
        if self.verdict != "compatible" or told is None:
            return self.verdict
        return MILD[told.effect]


def compare(decode: Decode, prefill: Prefill) -> Compatibility:
    """
    >>> from controlplane.domain.topology import SharedFacts, Topology
    >>> prefill = Prefill(Topology(1, 1, 4, 1), SharedFacts(64, "auto"))
    >>> found = compare(Decode(tp_size=4, cp_size=1, pp_size=1, page_size=32), prefill)
    >>> found.verdict, found.why_not.sentence
    ('incompatible', 'page_size differs: prefill has 64, decode has 32')
    """
    return Compatibility(tuple(finding for check in CHECKS for finding in check(decode, prefill)))


def check(decode: Decode, prefill: Prefill) -> tuple[Finding, ...]:
    """Refuse (conflict) a pair that cannot work, with what SGLang would do; else all that stays open."""
    found = compare(decode, prefill)
    why_not = found.why_not
    if why_not is not None:
        raise Refused(f"{why_not.sentence}; {why_not.what_happens}", code="conflict")
    return found.findings


def _equal(field: str, *, unless_null: bool = False) -> Callable[[Decode, Prefill], Iterator[Finding]]:
    """A fact that both sides must say alike, or the decode raises. When the prefill says null SGLang looks away;
    `unless_null`: when the decode does, too."""

    def findings(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
        ours, theirs = getattr(decode, field), getattr(prefill.facts, field)
        if ours is UNKNOWN:
            if theirs is not None:
                yield _unknown(field, theirs)
        elif ours != theirs and (theirs is None or (ours is None and unless_null)):
            silent = "prefill" if theirs is None else "decode"
            yield Finding(field, Effect.WRONG_KV, theirs, ours, f"the {silent} does not say its {field}")
        elif ours != theirs:
            yield _differs(field, theirs, ours)

    return findings


def _minimax(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    """Head-major page rows and a replicated index cannot be cut by attention heads."""
    yield from _same_tp_for(decode, prefill, {"minimax_index_k"}, "MiniMax sparse attention")


def _block_scales(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    """MXFP8's block scales are sharded by heads; every way to send refuses other TP sizes."""
    if or_else(decode.is_mla, False) or or_else(decode.is_hybrid_mla, False):
        return
    yield from _same_tp_for(decode, prefill, {"block_scale", "block_scale_swa"}, "an MXFP8 KV cache")


def _same_tp_for(decode: Decode, prefill: Prefill, states: set[str], what: str) -> Iterator[Finding]:
    ours, theirs = decode.tp_size, prefill.topology.tp
    if decode.state_types is not UNKNOWN and decode.state_types & states and ours is not UNKNOWN and ours != theirs:
        yield Finding(
            "tp_size",
            Effect.DECODE_DIES,
            theirs,
            ours,
            f"{what} needs equal TP: prefill has {theirs}, decode has {ours}",
        )


def _spec_layout(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    """DSpark's layout must be the same, null included, and the TP sizes too (prefill's CP counts for MLA)."""
    ours, theirs = decode.dsv41_spec_layout, prefill.facts.dsv41_spec_layout
    field = "dsv41_spec_layout"
    if ours is UNKNOWN:
        if theirs is not None:
            yield _unknown(field, theirs)
        return
    if ours != theirs:
        yield Finding(field, Effect.DECODE_DIES, theirs, ours, f"{field} differs{_keys(theirs, ours)}")
    if ours is None and theirs is None:
        return
    tp, cp = prefill.topology.tp, prefill.topology.cp
    mla = or_else(decode.is_mla, False) or or_else(decode.is_hybrid_mla, False)
    allowed = {tp, tp * cp} if mla and or_else(decode.cp_size, 1) == 1 else {tp}
    if decode.tp_size is not UNKNOWN and decode.tp_size not in allowed:
        yield Finding(
            "tp_size",
            Effect.DECODE_DIES,
            tp,
            decode.tp_size,
            f"DSpark needs equal TP: prefill has {tp}, decode has {decode.tp_size}",
        )


def _decode_context(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    size = or_else(decode.dcp_size, 1)
    if size == 1:
        return
    why = None
    if decode.is_mla is False and not or_else(decode.is_hybrid_mla, False):
        why = f"decode DCP {size} needs an MLA model"
    elif prefill.topology.cp != 1:
        why = f"decode DCP {size} needs prefill CP 1, it is {prefill.topology.cp}"
    elif prefill.facts.enable_kv_cache_sharding:
        why = f"decode DCP {size} cannot take KV from a prefill with KV cache sharding"
    if why:
        yield Finding("dcp_size", Effect.DECODE_DIES, prefill.topology.cp, size, why)


def _tp(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    ours, sizes = decode.tp_size, prefill.sizes
    theirs = sizes.tp_size
    if ours is UNKNOWN:
        yield _unknown("tp_size", theirs)
        return
    assert isinstance(ours, int)
    kinds = (True, False) if decode.is_mla is UNKNOWN else (bool(decode.is_mla),)
    no = {mla: _refused(DecodeRank(tp_size=ours, engine_rank=0, is_mla=mla), sizes) for mla in kinds}
    answers = set(no.values())
    if len(answers) > 1:
        # Only for one kind of model, and nobody said which this is.
        yield Finding(
            "is_mla", Effect.UNKNOWN, None, UNKNOWN, f"whether TP {ours} fits TP {theirs} depends on the model (MLA)"
        )
        return
    (refusal,) = answers
    if refusal is not None:
        code, sentence = refusal
        # A larger decode asks for a rank that nobody has (404); a larger prefill waits with its last ranks.
        uneven = Effect.REQUEST_FAILS if ours > theirs else Effect.HANGS
        yield Finding("tp_size", Effect.DECODE_DIES if code != "tp_not_divisible" else uneven, theirs, ours, sentence)
    elif ours != theirs and decode.is_mla is False and not or_else(decode.is_hybrid_mla, False):
        sentence = f"TP differs and the model is not MLA: prefill has {theirs}, decode has {ours}"
        yield Finding("tp_size", Effect.SLOWER, theirs, ours, sentence)


def _cp(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    """A decode with CP fails an assertion, whatever the prefill. An engine that does not say has none, as nearly all."""
    rank = DecodeRank(tp_size=1, engine_rank=0, cp_size=or_else(decode.cp_size, 1))
    refusal = _refused(rank, PrefillSizes(tp_size=1))
    if refusal is not None:
        yield Finding("cp_size", Effect.DECODE_DIES, prefill.topology.cp, decode.cp_size, refusal[1])


def _pp(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    theirs = prefill.topology.pp
    if decode.pp_size is UNKNOWN:
        # PP 1 fits every prefill, and is what decodes have; anything else must be the same.
        return
    refusal = _refused(
        DecodeRank(tp_size=1, engine_rank=0, pp_size=decode.pp_size), PrefillSizes(tp_size=1, pp_size=theirs)
    )
    if refusal is not None:
        yield Finding("pp_size", Effect.DECODE_DIES, theirs, decode.pp_size, refusal[1])


def _policy(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    ours, theirs = decode.decode_allocation_policy, prefill.facts.decode_allocation_policy
    field = "decode_allocation_policy"
    if ours is UNKNOWN:
        if theirs != "early":
            yield _unknown(field, theirs)
    elif ours != theirs:
        yield _differs(field, theirs, ours, Effect.REQUEST_FAILS)
    try:
        check_allocation(theirs, prefill.sizes)
    except Refused as refused:
        yield Finding(field, Effect.REQUEST_FAILS, theirs, ours, refused.sentence)


def _model(decode: Decode, prefill: Prefill) -> Iterator[Finding]:
    """KV of one model means nothing to another, and has the same shape in many. Where weights lie differs by host: the
    last part of a path counts."""
    ours, theirs = decode.model, prefill.model
    if ours is UNKNOWN or not theirs or _last_part(ours) == _last_part(theirs):
        return
    yield Finding(
        "model", Effect.WRONG_KV, theirs, ours, f"the models differ: prefill serves {theirs}, decode serves {ours}"
    )


def _last_part(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].lower()


def _refused(rank: DecodeRank, sizes: PrefillSizes) -> tuple[str, str] | None:
    try:
        map_ranks(rank, sizes)
    except Refused as refused:
        return refused.code, refused.sentence
    return None


def _differs(field: str, prefill: Any, decode: Any, effect: Effect = Effect.DECODE_DIES) -> Finding:
    return Finding(field, effect, prefill, decode, f"{field} differs: prefill has {prefill}, decode has {decode}")


def _unknown(field: str, prefill: Any) -> Finding:
    return Finding(
        field, Effect.UNKNOWN, prefill, UNKNOWN, f"prefill has {field} {prefill}; nobody said what the decode has"
    )


def _keys(prefill: str | None, decode: str | None) -> str:
    """Which parts of two layouts differ."""
    ours, theirs = json.loads(decode or "{}"), json.loads(prefill or "{}")
    names = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    return f" ({', '.join(names[:6])})" if names else ""


CHECKS: tuple[Callable[[Decode, Prefill], Iterator[Finding]], ...] = (
    _equal("page_size"),
    _equal("kv_cache_dtype"),
    _minimax,
    _equal("kv_layout", unless_null=True),
    _spec_layout,
    _block_scales,
    _decode_context,
    _tp,
    _cp,
    _pp,
    _policy,
    _model,
)
"""In SGLang's order, and then what it does not look at."""
