"""One token for all processes of one start of an engine, or none where they cannot have agreed on one.

The first process of a start mints it and its children inherit it (spawn or fork). Nodes of one engine are started apart, and
so are actors: what each of them mints says nothing about the others. Their ranks go without a token unless whoever starts
them sets PD_LAUNCH_TOKEN, and the control plane infers which launch they are of, as it does for unmodified engines.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import MutableMapping

from workers.sdk.identity import VARIABLE, launch_token

MINTED = "PD_LAUNCH_TOKEN_MINTED"
"""`TOKEN/PID` of the process that minted it: what was set by hand has none."""


def prepare(env: MutableMapping[str, str] = os.environ) -> bool:
    """Mint one if there is none; whether this process did."""
    if env.get(VARIABLE):
        return False
    env[MINTED] = f"{launch_token(env)}/{os.getpid()}"
    return True


def renew(env: MutableMapping[str, str] = os.environ) -> None:
    """This process starts another engine: a token that was minted, here or by whoever started this process, is not used for
    two. One that was set by hand stays."""
    if minted_by(env) is not None:
        env[VARIABLE] = secrets.token_hex(16)
        env[MINTED] = f"{env[VARIABLE]}/{os.getpid()}"


def minted_by(env: MutableMapping[str, str] = os.environ) -> int | None:
    """The process that minted the token; None when it was given."""
    token, _, pid = env.get(MINTED, "").rpartition("/")
    return int(pid) if token and token == env.get(VARIABLE) and pid.isdigit() else None


def token_for(*, nodes: int, ranks: int, env: MutableMapping[str, str] = os.environ) -> str:
    """The token that a rank of this process registers with; "" for none. `nodes` and `ranks` are those of the engine.

    >>> token_for(nodes=2, ranks=16, env={"PD_LAUNCH_TOKEN": "set-by-the-launcher"})
    'set-by-the-launcher'
    >>> own = {}
    >>> prepare(own), token_for(nodes=2, ranks=16, env=own), token_for(nodes=1, ranks=2, env=own)
    (True, '', '')
    >>> token_for(nodes=1, ranks=1, env=own) == own["PD_LAUNCH_TOKEN"]
    True
    """
    minter = minted_by(env)
    alone = minter == os.getpid() and ranks > 1
    if minter is not None and (nodes > 1 or alone):
        return ""
    return launch_token(env)
