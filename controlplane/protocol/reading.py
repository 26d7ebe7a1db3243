"""What both wires share in reading: typed JSON with sentences that name the field, and lenient integers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from controlplane.domain.errors import Refused

MISSING = re.compile(r"Object missing required field `(?P<field>[^`]+)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
WRONG = re.compile(r"(?P<problem>.+) - at `\$\.?(?P<path>[^`]*)`")
MAX_DIGITS = 4300


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes, what: str) -> Any:
    """The body as the decoder's type, or Refused with the field and what is wrong with it."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as problem:
        raise Refused(sentence(str(problem), what), code="malformed") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as problem:
        if not body:
            raise Refused(f"{what} has no body; a JSON object is needed", code="malformed") from None
        raise Refused(f"the body of {what} is not JSON: {problem}", code="malformed") from None
    except RecursionError:
        raise Refused(f"the body of {what} is nested too deeply", code="malformed") from None


def sentence(problem: str, what: str) -> str:
    """msgspec's complaint with the field in front.

    >>> sentence("Expected `int`, got `str` - at `$.rank_port`", "PUT /route")
    'rank_port: expected int, got str'
    >>> sentence("Object missing required field `rank_ip`", "PUT /route")
    'rank_ip is missing'
    """
    missing = MISSING.fullmatch(problem)
    if missing:
        path = f"{missing['path']}." if missing["path"] else ""
        return f"{path}{missing['field']} is missing"
    wrong = WRONG.fullmatch(problem)
    if wrong and wrong["path"]:
        plain = wrong["problem"].replace("`", "")
        return f"{wrong['path']}: {plain[0].lower()}{plain[1:]}"
    plain = problem.replace("`", "")
    return f"the body of {what} must be a JSON object: {plain[0].lower()}{plain[1:]}"


def lenient_int(text: str, name: str) -> int:
    """An integer as Python's `int()` reads it (`+0`, spaces, underscores, leading zeros), but never a 500."""
    try:
        return int(text)
    except ValueError:
        shown = ascii(text if len(text) <= 40 else f"{text[:37]}...")
        raise Refused(f"{name} must be an integer, not {shown}", code="malformed") from None


def numeric(value: int | str, name: str, least: int, most: int) -> int:
    """A number that may come as a string of digits, within a range."""
    number = lenient_int(value, name) if isinstance(value, str) else value
    if not least <= number <= most:
        shown = number if abs(number) < 10**20 else "that"
        raise Refused(f"{name} must be between {least} and {most}, not {shown}", code="malformed")
    return number


def short_text(value: str | None, name: str, limit: int) -> str | None:
    """A text that a database and a log can hold: no NUL, no other control characters, bounded."""
    if value is None:
        return None
    if len(value) > limit:
        raise Refused(f"{name} has {len(value)} characters; at most {limit} are allowed", code="malformed")
    if not value.isprintable():
        raise Refused(f"{name} contains control characters", code="malformed")
    return value
