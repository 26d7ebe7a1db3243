"""Where a token may stand in a request: `X-PD-Token`, or `Authorization` as Bearer or Token. Never in the query."""

from __future__ import annotations

from collections.abc import Mapping

SCHEMES = ("bearer", "token")


def token_in(own: str | None, authorization: str | None) -> str | None:
    """The token of these two headers. Ours wins: a proxy, or an engine's own key, may need the other one.

    >>> token_in(None, "Bearer pdcp_1"), token_in("pdcp_2", "Bearer pdcp_1"), token_in(None, "Basic bmFtZTp4")
    ('pdcp_1', 'pdcp_2', None)
    """
    if own and own.strip():
        return own.strip()
    scheme, _, rest = (authorization or "").strip().partition(" ")
    return rest.strip() or None if scheme.lower() in SCHEMES else None


def token_in_raw(headers: Mapping[bytes, bytes]) -> str | None:
    """The same from headers as ASGI has them, by lower-case name."""
    own, authorization = headers.get(b"x-pd-token", b""), headers.get(b"authorization", b"")
    return token_in(own.decode("latin-1"), authorization.decode("latin-1")) if own or authorization else None
