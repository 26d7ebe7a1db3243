"""Sentences of the events about access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from .wording import listing

Data = Mapping[str, Any]


def _made(d: Data) -> str:
    where = f"on {d['token_instance']}" if d["token_instance"] else "on every instance"
    until = (
        "for ever" if d["expires"] is None else f"until {datetime.fromtimestamp(d['expires'], UTC):%Y-%m-%d %H:%M} UTC"
    )
    return f"token {_name(d)} was made: it may {listing(d['verbs'], limit=8)} {where}, {until}"


def _name(d: Data) -> str:
    return f"{d['name']} ({d['token']}…)"


TELL: Mapping[str, Callable[[Data], str]] = {
    "token.made": _made,
    "token.revoked": lambda d: f"token {_name(d)} was revoked",
}
