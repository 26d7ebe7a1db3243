"""Numbers as charts and tables show them: three digits that matter, thousands apart."""

from __future__ import annotations

UNKNOWN = "–"


def amount(number: float | None) -> str:
    """
    >>> [amount(number) for number in (None, 0, 0.04, 3.421, 21.44, 99.96, 1284.3)]
    ['–', '0', '0.04', '3.42', '21.4', '100', '1,284']
    """
    if number is None:
        return UNKNOWN
    digits = 0 if number >= 99.95 else 1 if number >= 9.995 else 2
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
