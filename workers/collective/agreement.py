"""One bootstrap port for all nodes of a launch: that of world rank 0, told before anybody registers.

Source: conn.py, `_sync_bootstrap_port_across_nodes`. Without it every node registers at the leader's host with a port that
only itself reserved, is refused, and its rows are missing for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from .errors import NobodyTold, NotAgreed, NotInitialised
from .message import SIZE, Garbled, Launch, decode, encode

log = logging.getLogger(__name__)

WITHIN_SECONDS = 60.0


class Group(Protocol):
    """A process group that can tell the same bytes to every rank. `workers.collective.gloo` makes the real one."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def broadcast(self, said: bytes, *, within: float) -> bytes:
        """What rank 0 said, on every rank, within so many seconds. Raises TimeoutError, or OSError when a rank is lost."""
        ...


def agree(
    own: Launch,
    *,
    nnodes: int,
    group: Callable[[], Group | None] | None = None,
    within: float = WITHIN_SECONDS,
) -> Launch:
    """The launch as world rank 0 knows it: its port and token. All ranks of all nodes call this once, before they register.

    With one node nothing is asked and nobody waited for: `own` is right. `group` gives the process group, None when there
    is none (without: torch.distributed's, over gloo).

    Raises NotInitialised when there is no process group, NobodyTold after `within` seconds or when a rank is lost, NotAgreed
    for anything else. The caller must not register then.
    """
    if nnodes < 1:
        raise NotAgreed(f"a launch has at least one node, not {nnodes}")
    if nnodes == 1:
        return own
    found = (group or _torch_group)()
    if found is None:
        raise NotInitialised(
            f"torch.distributed is not initialised, so this rank of a launch of {nnodes} nodes cannot know the leader's"
            f" bootstrap port: its own {own.port} would be refused there. Call init_process_group before registering"
        )
    began = time.monotonic()
    try:
        told = decode(found.broadcast(encode(own) if found.rank == 0 else bytes(SIZE), within=within))
    except TimeoutError:
        raise NobodyTold(
            f"rank {found.rank} of {found.size} was not told the leader's bootstrap port within {within:g} s: look whether"
            " all ranks of all nodes started, and whether they reach one another. The process group is of no more use"
        ) from None
    except OSError as problem:
        raise NobodyTold(
            f"rank {found.rank} of {found.size} lost another rank before the leader's bootstrap port was told: {problem}"
        ) from None
    except Garbled as problem:
        raise NotAgreed(f"rank {found.rank} cannot read what world rank 0 told: {problem}") from None
    if told.port != own.port:
        log.info(
            "rank %d of %d takes the leader's bootstrap port %d instead of its own %d (after %.1f s)",
            found.rank,
            found.size,
            told.port,
            own.port,
            time.monotonic() - began,
        )
    return told


def agree_on_port(local_port: int, *, nnodes: int, within: float = WITHIN_SECONDS) -> int:
    """The port alone; see `agree`."""
    return agree(Launch(local_port), nnodes=nnodes, within=within).port


def _torch_group() -> Any:
    from .gloo import default_group

    return default_group()
