"""What was typed to find events, as values: `instance:a,b kind:rank who:anna since:2h until:03:10 words`."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from controlplane.domain.errors import Refused

LONGEST = 400
LATEST = 253_402_300_799.0
"""The end of the year 9999."""

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
AGO = re.compile(r"([0-9]{1,6})([smhd])")
CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?")
TOKEN = re.compile(r"(instance|kind|who|since|until):(\S*)")


@dataclass(frozen=True, slots=True)
class Asked:
    """`since`, `until`: epoch seconds. Empty fields do not narrow."""

    instances: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    who: str = ""
    since: float | None = None
    until: float | None = None
    words: str = ""

    @property
    def narrow(self) -> bool:
        return self != Asked()


def read(given: Mapping[str, str], now: float) -> Asked:
    """From the query of a URL: `q` and, for lists to choose from, `kind`, `who`, `since`, `until`. Raises Refused.

    >>> read({"q": "instance:a,b since:2m disk fails", "kind": "rank"}, 1000.0)
    Asked(instances=('a', 'b'), kinds=('rank',), who='', since=880.0, until=None, words='disk fails')
    """
    text = given.get("q", "")
    if len(text) > LONGEST or not (text.isprintable() or not text):
        raise Refused(f"what is sought has at most {LONGEST} characters, in one line", code="malformed")
    asked, words = Asked(), []
    chosen = [(key, given[key]) for key in ("instance", "kind", "who", "since", "until") if given.get(key)]
    typed = []
    for word in text.split():
        found = TOKEN.fullmatch(word)
        if found is None:
            words.append(word)
        elif not found[2]:
            raise Refused(f"{found[1]}: needs a value behind it", code="malformed")
        else:
            typed.append((found[1], found[2]))
    for key, value in [*chosen, *typed]:
        asked = _with(asked, key, value, now)
    return replace(asked, words=" ".join(words))


def _with(asked: Asked, key: str, value: str, now: float) -> Asked:
    if key in ("since", "until"):
        at = moment(value, now)
        return replace(asked, since=at) if key == "since" else replace(asked, until=at)
    if key == "who":
        return replace(asked, who=value[:150])
    parts = tuple(part for part in value.split(",") if part)[:20]
    return replace(asked, instances=parts) if key == "instance" else replace(asked, kinds=asked.kinds + parts)


def moment(text: str, now: float) -> float:
    """Epoch seconds of `15m` (ago), of `03:10` or `03:10:02.5` (UTC, the last time that it was so late), or of a date.

    >>> moment("15m", 1000.0), moment("00:10", 1000.0), moment("00:20", 1000.0), moment("1970-01-01T00:00:09Z", 0.0)
    (100.0, 600.0, -85200.0, 9.0)
    """
    if found := AGO.fullmatch(text):
        return max(0.0, now - int(found[1]) * UNITS[found[2]])
    if found := CLOCK.fullmatch(text):
        hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
        if hours < 24 and minutes < 60 and seconds < 60:
            at = now // 86_400 * 86_400 + hours * 3_600 + minutes * 60 + float(f"{seconds}.{found[4] or 0}")
            return at if at <= now else at - 86_400
    try:
        date = datetime.datetime.fromisoformat(text)
        at = (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise Refused(
            f"{text[:40]!r} is no time: write 15m or 2h for so long ago, 03:10 or 03:10:02, or 2026-01-31T10:02",
            code="malformed",
        ) from None
    if not 0 <= at <= LATEST:
        raise Refused(f"{text[:40]!r} is no time that the ledger can have", code="malformed")
    return at


def asking(given: Mapping[str, str], **changes: object) -> str:
    """The query of a URL with some of its fields set, or taken out with None.

    >>> asking({"q": "a b", "before": "7"}, before=None, event=9)
    '?q=a+b&event=9'
    """
    wanted = {**given, **changes}
    query = urlencode({key: value for key, value in wanted.items() if value not in (None, "")})
    return f"?{query}" if query else ""
