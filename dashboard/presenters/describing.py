"""The form in which a decode is described that never registered, and what was written into it, as a decode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.domain import decodes
from controlplane.domain.errors import Refused

PREFIX = "as."
"""Of the names in the query, so that they meet nothing else there."""


@dataclass(frozen=True, slots=True)
class Field:
    """`options`: what can be chosen; empty: text is typed. `hint` stands in the empty field."""

    name: str
    label: str
    hint: str = ""
    number: bool = False
    options: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return PREFIX + self.name


FIELDS = (
    Field("tp_size", "TP", "4", number=True),
    Field("pp_size", "PP", "1", number=True),
    Field("page_size", "page_size", "64", number=True),
    Field("kv_cache_dtype", "kv_cache_dtype", "auto"),
    Field("kv_layout", "kv_layout", "none"),
    Field("is_mla", "MLA model", options=("yes", "no")),
    Field("decode_allocation_policy", "allocation policy", options=("early", "prefill_complete")),
)
NONE = "none"
"""What is written for a fact that this engine has not."""


def written(query: Mapping[str, str]) -> list[tuple[Field, str]]:
    """Every field with what stands in it."""
    return [(field, query.get(field.key, "").strip()) for field in FIELDS]


def described(query: Mapping[str, str]) -> decodes.Decode | None:
    """The decode that is described; None when nothing is. Raises Refused (malformed) with the name of the field.

    >>> described({"as.tp_size": "4", "as.is_mla": "no"}).said
    {'tp_size': 4, 'is_mla': False}
    >>> described({"as.tp_size": " "}) is None
    True
    """
    given = {field.name: _value(field, text) for field, text in written(query) if text}
    return decodes.read(given) if given else None


def _value(field: Field, text: str) -> Any:
    if field.name in decodes.SWITCHES:
        if text not in ("yes", "no"):
            raise Refused(f"{field.name} must be yes or no", code="malformed")
        return text == "yes"
    if text == NONE and field.name in ("page_size", *decodes.TEXTS):
        return None
    if field.number:
        if not (text.isascii() and text.isdigit()) or len(text) > 10:
            raise Refused(f"{field.name} must be a whole number, not {text[:40]!r}", code="malformed")
        return int(text)
    return text
