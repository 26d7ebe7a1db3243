"""Sizes of published weights as people read them, and the one word that says how a session stands."""

from __future__ import annotations

from controlplane.queries.engine_info import SessionRow

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
DIGEST = 12
"""Characters of a digest that are shown; all of it is copied."""

STATES = {"live": "published", "conflict": "conflict", "retired": "ended"}


def size_text(count: float) -> str:
    """
    >>> [size_text(n).replace("\\u202f", " ") for n in (0, 1023, 1536, 58_720_256, 3.2 * 2**40)]
    ['0 B', '1,023 B', '1.5 KiB', '56.0 MiB', '3.2 TiB']
    """
    step = 0
    while count >= 1024 and step < len(UNITS) - 1:
        count /= 1024
        step += 1
    return f"{count:,.0f}\u202fB" if step == 0 else f"{count:.1f}\u202f{UNITS[step]}"


def word_of(session: SessionRow) -> str:
    return STATES.get(session.state, session.state)


REACHED = {
    "up": "answers",
    "silent": "takes connections, does not answer",
    "stranger": "another program answers",
    "refused": "refuses connections",
}


def reached_text(session: SessionRow) -> str:
    """What the last probe saw, and whether one ever got through to the session."""
    if session.contact in REACHED:
        return REACHED[session.contact]
    return "answered before" if session.greeted else "never reached from here"


def short(digest: str) -> str:
    """
    >>> short("0123456789abcdef")
    '0123456789ab'
    """
    return digest[:DIGEST]


def share(part: int, whole: int) -> int:
    """Of a progress bar that is complete at `whole`, never beyond.

    >>> share(15, 16), share(20, 16)
    (15, 16)
    """
    return min(part, whole)
