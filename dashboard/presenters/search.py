"""What somebody types above a list of instances: `state:draining role:prefill -text`, as terms and back again."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from controlplane.domain.errors import Refused
from controlplane.queries.overview import KEYS, Term, Wanted

LONGEST = 200
ALSO = {"intent": "desired", "is": "state"}
"""Other words for the same."""


def read(text: str) -> tuple[Term, ...]:
    """Whatever is no `key:value` that we know is text: of a name, or of an address. Raises Refused (malformed).

    >>> read("state:draining -role:seed prefill")
    (Term(key='state', value='draining', without=False), Term(key='role', value='seed', without=True), \
Term(key='text', value='prefill', without=False))
    >>> read("10.4.1.22:30000 state:")
    (Term(key='text', value='10.4.1.22:30000', without=False),)
    """
    if len(text) > LONGEST:
        raise Refused(f"a search has {LONGEST} characters at most, not {len(text)}", code="malformed")
    if "\x00" in text:
        raise Refused("a search is text, and holds no NUL", code="malformed")
    return tuple(term for word in text.lower().split() for term in _term(word))


def _term(word: str) -> tuple[Term, ...]:
    without = word.startswith("-") and len(word) > 1
    bare = word[1:] if without else word
    key, colon, value = bare.partition(":")
    key = ALSO.get(key, key)
    if not colon or key not in KEYS or key == "text":
        return (Term("text", bare, without),)
    # While somebody types, the value is not there yet.
    return (Term(key, value, without),) if value else ()


def with_role(text: str, role: str) -> str:
    """The same search narrowed to this role, or not narrowed to any when it was to this one.

    >>> with_role("state:up role:seed", "prefill"), with_role("role:prefill x", "prefill")
    ('state:up role:prefill', 'x')
    """
    wanted = f"role:{role}"
    words = text.split()
    others = [word for word in words if not word.startswith("role:")]
    return " ".join(others if wanted in words else [*others, wanted])


def asked_for(given: Mapping[str, str]) -> Wanted:
    """Raises Refused (malformed)."""
    return Wanted(
        read(given.get("q", "")),
        given.get("sort") or "name",
        given.get("after", ""),
        given.get("before", ""),
    )


def query_of(given: Mapping[str, str], **words: str) -> str:
    """The same page asked for with other words; an empty one is left away."""
    kept = {key: given[key] for key in ("q", "sort", "after", "before", "attention") if given.get(key)}
    said = {key: value for key, value in (kept | words).items() if value}
    return f"?{urlencode(said)}" if said else "?"
