"""What a decode is, as far as anybody said: decodes do not register, so what nobody said is UNKNOWN, not absent."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from .errors import Refused
from .rankmap import DecodeRank
from .topology import MAX_SIZE, SharedFacts, Topology


class Unknown(enum.Enum):
    """Nobody said. Null is something that was said: this engine has no such thing."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN

MAX_TEXT = 200
MAX_LAYOUT = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """A decode engine: its attention sizes, how it keeps KV, and the facts that SGLang compares with a prefill's.

    `dsv41_spec_layout` is canonical JSON text. `state_types` are those of SGLang's StateType that its KV pools have.
    `model`: the name under which it serves one, which SGLang does not compare.
    """

    tp_size: int | Unknown = UNKNOWN
    cp_size: int | Unknown = UNKNOWN
    pp_size: int | Unknown = UNKNOWN
    dcp_size: int | Unknown = UNKNOWN
    is_mla: bool | Unknown = UNKNOWN
    is_hybrid_mla: bool | Unknown = UNKNOWN
    all_cp_ranks: bool | Unknown = UNKNOWN
    page_size: int | Unknown | None = UNKNOWN
    kv_cache_dtype: str | Unknown | None = UNKNOWN
    kv_layout: str | Unknown | None = UNKNOWN
    dsv41_spec_layout: str | Unknown | None = UNKNOWN
    decode_allocation_policy: str | Unknown = UNKNOWN
    state_types: frozenset[str] | Unknown = UNKNOWN
    model: str | Unknown = UNKNOWN

    @property
    def said(self) -> dict[str, Any]:
        """Only what is known, JSON-able."""
        known = {name: getattr(self, name) for name in NAMES if getattr(self, name) is not UNKNOWN}
        return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in known.items()}

    def rank(self, engine_rank: int, pp_rank: int) -> DecodeRank:
        """One of its ranks, as the rank mapping wants it. What nobody said is what most engines are."""
        return DecodeRank(
            tp_size=or_else(self.tp_size, 1),
            engine_rank=engine_rank,
            cp_size=or_else(self.cp_size, 1),
            pp_size=or_else(self.pp_size, 1),
            pp_rank=pp_rank,
            is_mla=or_else(self.is_mla, False),
            is_hybrid_mla=or_else(self.is_hybrid_mla, False),
            all_cp_ranks=or_else(self.all_cp_ranks, False),
        )


NAMES = tuple(field.name for field in fields(Decode))
COMPARED = tuple(name for name in NAMES if name != "model")
"""What SGLang looks at; an engine that says no more than its model has not said what it is."""

SIZES = ("tp_size", "cp_size", "pp_size", "dcp_size")
SWITCHES = ("is_mla", "is_hybrid_mla", "all_cp_ranks")
TEXTS = ("kv_cache_dtype", "kv_layout")

NOBODY_SAID: Final = Decode()


def or_else(value: Any, default: Any) -> Any:
    """
    >>> or_else(UNKNOWN, 1), or_else(4, 1), or_else(None, 1)
    (1, 4, None)
    """
    return default if value is UNKNOWN else value


def stored(topology: Topology, facts: SharedFacts) -> Decode:
    """A decode of which a launch is known: it registered (after a change of role, say). Which model it runs, it never said."""
    return Decode(
        tp_size=topology.tp,
        cp_size=topology.cp,
        pp_size=topology.pp,
        page_size=facts.page_size,
        kv_cache_dtype=facts.kv_cache_dtype,
        kv_layout=facts.kv_layout,
        dsv41_spec_layout=facts.dsv41_spec_layout,
        decode_allocation_policy=facts.decode_allocation_policy,
    )


def read(given: Mapping[str, Any]) -> Decode:
    """A decode as it describes itself in JSON, names as on SGLang's wire. What is left away is unknown.

    >>> read({"tp_size": 4, "kv_layout": None}).said
    {'tp_size': 4, 'kv_layout': None}

    Raises Refused (malformed) with the name of the field.
    """
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise Refused(f"a decode has no {unknown[0]!r}; it has {', '.join(NAMES)}", code="malformed")
    return Decode(**{name: _checked(name, value) for name, value in given.items()})


def _checked(name: str, value: Any) -> Any:
    if name in SIZES:
        return _size(name, value)
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise Refused(f"{name} must be true or false", code="malformed")
        return value
    if name == "page_size":
        return None if value is None else _size(name, value, most=2**31 - 1)
    if name in TEXTS:
        return None if value is None else _text(name, value)
    if name in ("decode_allocation_policy", "model"):
        return _text(name, value)
    if name == "dsv41_spec_layout":
        return _layout(name, value)
    if not isinstance(value, list | tuple) or len(value) > 32:
        raise Refused(f"{name} must be a list of at most 32 names", code="malformed")
    return frozenset(_text(name, item) for item in value)


def _size(name: str, value: Any, *, most: int = MAX_SIZE) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise Refused(f"{name} must be an integer between 1 and {most}", code="malformed")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise Refused(f"{name} must be text of at most {MAX_TEXT} characters", code="malformed")
    return value


def _layout(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Refused(f"{name} must be an object or null", code="malformed")
    try:
        # As the bootstrap stores it: sorted, without spaces, and not escaped.
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise Refused(f"{name} is not JSON", code="malformed") from None
    if len(text.encode(errors="replace")) > MAX_LAYOUT:
        raise Refused(f"{name} is larger than {MAX_LAYOUT} bytes", code="malformed")
    return text
