"""The audit of what is asked for at a shell: who sits there, on which host, why, and what came of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from controlplane.access import attempts
from controlplane.access.roles import Role, Who
from controlplane.domain.errors import Refused

from .operating import os_user

Result = TypeVar("Result")


def attempted(
    work: Callable[[], Result],
    *,
    action: str,
    target: str,
    options: Mapping[str, Any],
    told: Callable[[Result], str] | None = None,
) -> Result:
    """What `work` returns, or its refusal: either stands in the audit, called as API and pages call it.

    `told`: the outcome in words; without it the result's own `sentence`. `--actor` may name anybody, so the user of this
    shell and the host are kept beside it, as the source.
    """
    who = Who(options["actor"] or os_user(), Role.ADMIN, via="cli", source=f"{os_user()}@{socket.gethostname()}")

    def note(outcome: str, *, allowed: bool) -> None:
        attempts.note(who, action, target, allowed=allowed, status=0, reason=options["reason"], outcome=outcome)

    try:
        done = work()
    except Refused as refused:
        note(refused.sentence, allowed=False)
        raise
    note(told(done) if told is not None else str(getattr(done, "sentence", "")), allowed=True)
    return done
