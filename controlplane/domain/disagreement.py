"""The two sides of a pair, and one thing on which they disagree: a field, both values, and what SGLang does about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from .rankmap import PrefillSizes
from .topology import SharedFacts, Topology


class Effect(enum.StrEnum):
    """What SGLang does."""

    DECODE_DIES = "decode_dies"
    REQUEST_FAILS = "request_fails"
    HANGS = "hangs"
    WRONG_KV = "wrong_kv"
    SLOWER = "slower"
    UNKNOWN = "unknown"


FATAL = (Effect.DECODE_DIES, Effect.REQUEST_FAILS, Effect.HANGS)

WHAT_HAPPENS = {
    Effect.DECODE_DIES: "the decode raises in its scheduler at the first request, and ends with all of its requests",
    Effect.REQUEST_FAILS: "every request fails; both processes go on",
    Effect.HANGS: "requests wait until SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT (300 s), then fail",
    Effect.WRONG_KV: "SGLang does not compare it: if it differs, KV is read wrongly and nothing says so",
    Effect.SLOWER: "it works, slower",
    Effect.UNKNOWN: "nobody said what this decode has",
}


@dataclass(frozen=True, slots=True)
class Prefill:
    """A prefill as its launch registered it, and the model that its engine says it serves; "" when nobody said."""

    topology: Topology
    facts: SharedFacts
    model: str = ""

    @property
    def sizes(self) -> PrefillSizes:
        _, cp, tp, pp = self.topology.axes()
        facts = self.facts
        return PrefillSizes(
            tp_size=tp,
            cp_size=cp,
            pp_size=pp,
            layer_split=facts.enable_dsa_cache_layer_split,
            kv_sharding=facts.enable_kv_cache_sharding,
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One field on which a pair disagrees, or that nobody compares, or nobody knows."""

    field: str
    effect: Effect
    prefill: Any
    decode: Any
    sentence: str

    @property
    def fatal(self) -> bool:
        return self.effect in FATAL

    @property
    def what_happens(self) -> str:
        return WHAT_HAPPENS[self.effect]
