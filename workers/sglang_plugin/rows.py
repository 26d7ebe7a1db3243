"""Ranks that SGLang registers are kept registered at the control plane: from the row that it would send, to the end.

The row is the payload of `PUT /route` (sglang/srt/disaggregation/common/conn.py, CommonKVManager.register_to_bootstrap).
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from workers.sdk import BadRank, Client, Rank, Registered, WorkerError, worker_name

log = logging.getLogger(__name__)

NAMES = frozenset(field.name for field in fields(Rank))
NUMBERS = frozenset(name for name in NAMES if name.endswith(("_size", "_rank", "_port")))


def read_rank(payload: Mapping[str, Any]) -> Rank:
    """What SGLang sends is what we send; a field that we do not know is left out. Raises BadRank."""
    try:
        given = {name: payload[name] for name in NAMES if name in payload}
        return Rank(**{name: _whole(name, value) for name, value in given.items()})
    except (TypeError, ValueError) as problem:
        raise BadRank(f"the row of this rank cannot be read: {problem}") from None


def _whole(name: str, value: Any) -> Any:
    return int(value) if name in NUMBERS and value is not None else value


def is_of(manager: Any, payload: Mapping[str, Any]) -> bool:
    """Whether a row is of the DP group of the process that tells it.

    With SGLang's Rust server each DP group has a listener, whose process tells it the rows of all groups: those of the
    others are theirs to keep.
    """
    return all(
        name not in payload or payload[name] == getattr(manager, name, payload[name])
        for name in ("attn_dp_rank", "system_dp_rank")
    )


def has_listener(manager: Any) -> bool:
    """Whether this process has a listener of SGLang's Rust server."""
    return getattr(getattr(manager, "kv_args", None), "rust_http_port", None) is not None


def size_of(rank: Rank) -> int:
    """How many ranks its engine has."""
    dp, cp, tp, pp = rank.topology.axes()
    return dp * cp * tp * pp


def is_first(rank: Rank) -> bool:
    """Of its DP group: one of them tells what all of them know."""
    return (rank.attn_cp_rank, rank.attn_tp_rank, rank.pp_rank) == (0, 0, 0)


def own_name(http_port: Any, host: str | None = None) -> str:
    """What an engine is called that nobody gave a name: the same over restarts, another for each engine of a host.

    >>> own_name(30000, "GPU 7.rack_2"), own_name(None, "")
    ('GPU-7.rack_2-30000', 'engine')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", host if host is not None else socket.gethostname()).strip("-._")
    return f"{name[:90] or 'engine'}{f'-{http_port}' if http_port else ''}"


class Rows:
    """Of one process. Used on the plugin's thread alone."""

    def __init__(self, *, lease_seconds: float) -> None:
        self._lease = lease_seconds
        self._kept: dict[int, list[Registered]] = {}

    def keep(self, client: Client, owner: int, rank: Rank, token: str) -> None:
        """From now on, for `owner` (the id of its manager), until `release(owner)`. `token`: of its launch, "" for none."""
        slot = rank.slot
        worker = f"{worker_name()[:80]}/{slot.dp}.{slot.cp}.{slot.tp}.{slot.pp}"
        kept = client.register([rank], lease_seconds=self._lease, token=token, worker=worker, on_change=_Drain(rank))
        self._kept.setdefault(owner, []).append(kept)

    def release(self, owner: int) -> None:
        """Its manager was torn down (a change of roles): the port that it registered is closed."""
        for kept in self._kept.pop(owner, []):
            try:
                kept.release()
            except WorkerError as problem:
                log.debug("a rank could not be let go: %s", problem.sentence)


class _Drain:
    """Says once what a drain means here: whoever chooses workers stops, this process does not."""

    def __init__(self, rank: Rank) -> None:
        self._rank, self._draining = rank, False

    def __call__(self, standing: Any) -> None:
        if standing.draining and not self._draining:
            log.info("%s is being drained: gateways and routers send nothing new; requests here go on", self._rank.slot)
        self._draining = standing.draining
