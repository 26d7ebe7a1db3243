"""The time that charts show, as the URL says it: the last hour and so on, or from one moment to another."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.errors import Refused

RANGES = {"15m": 900.0, "1h": 3600.0, "6h": 21_600.0, "24h": 86_400.0}
USUAL = "1h"
LEAST_SECONDS = 60.0
MOST_SECONDS = RANGES["24h"]
EARLIEST = 946_684_800.0
"""The year 2000: before that nobody sampled, and not far before that dates end."""

AHEAD_SECONDS = 60.0
"""How far the clock of whoever made a link may be ahead of ours."""


@dataclass(frozen=True, slots=True)
class Span:
    """`key` is one of RANGES, and the time ends now; blank, and it stays where it is."""

    since: float
    until: float
    key: str = ""

    @property
    def seconds(self) -> float:
        return self.until - self.since

    @property
    def query(self) -> str:
        """
        >>> Span(1000.0, 1900.0, "15m").query
        'range=15m'
        >>> Span(1764385200.4, 1764388800.0).query
        'since=2025-11-29T03:00:00Z&until=2025-11-29T04:00:00Z'
        """
        return f"range={self.key}" if self.key else f"since={moment(self.since)}&until={moment(self.until)}"

    def earlier(self) -> Span:
        """As long, just before this one."""
        return Span(self.since - self.seconds, self.since)

    def later(self, *, now: float) -> Span | None:
        """As long, just after this one; the present when that would be reached, None when this is it."""
        if self.key:
            return None
        # A little time has gone by since the page was made that leads here.
        if self.until + self.seconds < now - self.seconds / 10:
            return Span(self.until, self.until + self.seconds)
        key = next((key for key, seconds in RANGES.items() if seconds >= self.seconds - 1), USUAL)
        return Span(now - RANGES[key], now, key)


def span_of(query: Mapping[str, str], *, now: float) -> Span:
    """Raises Refused (malformed).

    >>> span_of({}, now=5000.0), span_of({"range": "15m"}, now=5000.0).since
    (Span(since=1400.0, until=5000.0, key='1h'), 4100.0)
    >>> span_of({"since": "2025-11-29T03:00Z", "until": "2025-11-29T04:00:00Z"}, now=2e9).seconds
    3600.0
    """
    since, until, key = query.get("since", ""), query.get("until", ""), query.get("range", "")
    if not since and not until:
        if (seconds := RANGES.get(key or USUAL)) is None:
            raise Refused(f"range is one of {', '.join(RANGES)}, not {key[:20]}", code="malformed")
        return Span(now - seconds, now, key or USUAL)
    begin, end = _read("since", since), _read("until", until)
    if end > now + AHEAD_SECONDS:
        raise Refused("until lies in the future", code="malformed")
    end = min(end, now)
    if end - begin < LEAST_SECONDS:
        raise Refused("since must be at least a minute before until", code="malformed")
    if end - begin > MOST_SECONDS:
        raise Refused("from since to until is at most 24 hours", code="malformed")
    return Span(begin, end)


def moment(at: float) -> str:
    """A moment as URLs have it, to the second."""
    return datetime.datetime.fromtimestamp(int(at), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(name: str, text: str) -> float:
    said = f"{name} is a moment such as 2026-11-29T03:00:00Z"
    if not text:
        raise Refused(f"{said}; since and until belong together", code="malformed")
    try:
        read = datetime.datetime.fromisoformat(text)
        at = (read if read.tzinfo else read.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise Refused(f"{said}, not {text[:40]}", code="malformed") from None
    if at < EARLIEST:
        raise Refused(f"{said}, not before {moment(EARLIEST)}", code="malformed")
    return at
