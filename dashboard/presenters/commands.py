"""The same from a shell: the request as curl, and as our own command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

TOKEN = '-H "Authorization: Bearer $PDCP_TOKEN"'
MANAGE = "python manage.py"


def curl(
    base: str, path: str, *, method: str = "GET", body: Mapping[str, Any] | None = None, if_match: int | None = None
) -> str:
    """
    >>> print(curl("http://pd:8080", "/api/v1/fleet"))
    curl -sS -H "Authorization: Bearer $PDCP_TOKEN" http://pd:8080/api/v1/fleet
    >>> print(curl("http://pd:8080", "/api/v1/x", method="POST", body={"reason": "it's hot"}, if_match=3))
    curl -sS -X POST -H "Authorization: Bearer $PDCP_TOKEN" \\
      -H 'If-Match: "3"' -H 'Content-Type: application/json' \\
      -d '{"reason": "it'"'"'s hot"}' \\
      http://pd:8080/api/v1/x
    """
    asked = f"curl -sS {TOKEN}" if method == "GET" else f"curl -sS -X {method} {TOKEN}"
    heads = [f"""-H 'If-Match: "{if_match}"'"""] if if_match is not None else []
    heads += ["-H 'Content-Type: application/json'"] if body is not None else []
    lines = [asked, *([" ".join(heads)] if heads else [])]
    if body is not None:
        lines.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    where = shlex.quote(f"{base}{path}")
    if len(lines) == 1:
        return f"{lines[0]} {where}"
    return " \\\n  ".join([*lines, where])


def because(path: str, why: str) -> str:
    """The path of a DELETE, which has no body to give the reason in.

    >>> because("/api/v1/tokens/a", "it leaked")
    '/api/v1/tokens/a?reason=it%20leaked'
    """
    return f"{path}?{urlencode({'reason': why}, quote_via=quote)}"


def cli(words: Iterable[str]) -> str:
    """
    >>> cli(["drain", "prefill-a", "--reason", "a disk fails"])
    "python manage.py drain prefill-a --reason 'a disk fails'"
    """
    return " ".join([MANAGE, *map(shlex.quote, words)])
