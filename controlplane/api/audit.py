"""The audit row of an attempt to change something, whether it was allowed or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from controlplane.access import attempts
from controlplane.access.roles import Who

from .problems import request_id

DENIED = (401, 403, 405)
"""405 too: nobody may do it, and whoever may only read could otherwise fill the audit."""


def note(
    request: HttpRequest, who: Who, answer: HttpResponse, *, action: str, target: str, said: Mapping[str, Any]
) -> None:
    """Never raises. `said` is what the answer says, or the problem; it holds no secrets."""
    outcome = said.get("sentence") or said.get("detail") or ""
    attempts.note(
        who,
        action,
        target,
        # Whoever is nobody is denied, whatever they hear: theirs are kept in bounds.
        allowed=who.known and answer.status_code not in DENIED,
        status=answer.status_code,
        reason=str(said.get("reason", "")),
        outcome=str(outcome),
        request_id=request_id(),
    )


def target(kwargs: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """What the attempt was about: the names in the path, then those in the body.

    >>> target({"name": "prefill-a"}, {"dp": 1, "reason": "x"})
    'prefill-a dp1'
    """
    names = [str(value) for value in kwargs.values()]
    names += [str(body[key]) for key in ("name", "instance") if body.get(key)]
    names += [f"dp{body['dp']}"] if body.get("dp") is not None else []
    return " ".join(names)
