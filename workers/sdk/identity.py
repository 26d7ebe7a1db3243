"""Who this process is: the token of its launch, minted once and inherited by its children, and its own name."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import MutableMapping

from .errors import WorkerError

VARIABLE = "PD_LAUNCH_TOKEN"
_LONGEST = 128
_lock = threading.Lock()


def launch_token(environ: MutableMapping[str, str] | None = None) -> str:
    """The token of this launch (`X-PD-Generation`): the same in every process of one start, another in the next start.

    The first process mints it and leaves it in its environment, so that the ranks it starts (spawn or fork) have it too.
    Whoever starts ranks on several hosts sets PD_LAUNCH_TOKEN, or agrees on one through `workers.collective`; whoever starts
    one launch after another sets it anew for each.
    """
    env = os.environ if environ is None else environ
    with _lock:
        given = env.get(VARIABLE, "")
        if not given:
            given = env[VARIABLE] = secrets.token_hex(16)
    return _checked(given)


def worker_name(environ: MutableMapping[str, str] | None = None) -> str:
    """A name of this process that stays the same while it runs: host, launch and process id.

    >>> worker_name({VARIABLE: "00c0ffee" * 4}).split("/")[1:] == ["00c0ffee", str(os.getpid())]
    True
    """
    return f"{socket.gethostname()[:64]}/{launch_token(environ)[:8]}/{os.getpid()}"


def _checked(token: str) -> str:
    if len(token) > _LONGEST or not token.isascii() or not token.isprintable():
        raise WorkerError(f"{VARIABLE} must be at most {_LONGEST} printable ASCII characters")
    return token
