"""`/health` of an instance, and the evidence that ends a flush.

A decode keeps what it resolved until `/health` of that address is not 200 twice in a row, so a flush lasts until
every poller was told twice, and look-ups answer 503 until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .directory import Directory

POLLER_MEMORY = 60.0
"""Seconds for which a poll on an open connection makes its peer somebody to wait for."""

CLOSED_COUNTS = 12.0
"""Seconds for which a poller whose connection closed may come back on another one."""

FIRST_POLL_WITHIN = 12.0
"""Seconds within which a decode that was told the topology polls for the first time: 5, and more beside others that hang."""

FLUSH_LIMIT = 60.0
"""Seconds after which a flush ends whatever was seen."""

TWICE = 2
FORGET_FROM = 64
"""So many are kept before those that count no longer are looked for."""


def health_status(directory: Directory | None, *, retired: bool) -> int:
    """200, 503 while a flush is owed or a launch that served is broken, 404 for the unknown and the retired."""
    if directory is None or retired:
        return 404
    return 503 if directory.debt is not None else 200


@dataclass(frozen=True, slots=True)
class Poller:
    """One connection that asked `/health`: when last, how often in a row it was told no, and since when.

    `shared`: a proxy keeps it for several decodes, so that twice need not be twice to each of them.
    """

    polled_at: float
    refusals: int = 0
    polls: int = 1
    closed_at: float | None = None
    refused_since: float | None = None
    shared: bool = False

    def knows(self, now: float) -> bool:
        """Whether whoever asks through it was told twice in a row, or has had the time to."""
        if self.refusals < TWICE or self.refused_since is None:
            return False
        return not self.shared or now - self.refused_since >= CLOSED_COUNTS


class Pollers:
    """Who asks `/health` of one instance. Counted at the door, never stored: after a restart of ours all of them
    count as closed at that moment. Times by one clock, which nobody should be able to set."""

    def __init__(self, *, unknown_until: float = 0.0) -> None:
        self._pollers: dict[int, Poller] = {}
        self._many = FORGET_FROM
        self._unknown_until = unknown_until

    def learned(self, now: float) -> None:
        """A decode was told the topology, keeps it, and has not polled yet."""
        self._unknown_until = max(self._unknown_until, now + FIRST_POLL_WITHIN)

    def polled(self, connection: int, status: int, now: float, *, shared: bool = False) -> None:
        known = self._pollers.get(connection)
        refusals = 0 if status == 200 else (known.refusals if known else 0) + 1
        since = None if status == 200 else known.refused_since if known and known.refusals else now
        polls = known.polls + 1 if known else 1
        self._pollers[connection] = Poller(now, refusals, polls, refused_since=since, shared=shared)
        if len(self._pollers) > self._many:
            # Health checks come on ever new connections, and for months nobody is waited for.
            self._forget(now)
            self._many = max(FORGET_FROM, 2 * len(self._pollers))

    def closed(self, connection: int, now: float) -> None:
        known = self._pollers.get(connection)
        if known is None:
            return
        if known.polls == known.refusals == 1 and not known.shared:
            # It asked once, was told no, and went: no decode, whose heartbeat keeps its connection, but somebody's probe.
            del self._pollers[connection]
        else:
            self._pollers[connection] = replace(known, closed_at=now)

    def waiting(self, now: float) -> int:
        """How many have not been told twice yet; forgets those that no longer count."""
        self._forget(now)
        waiting = sum(not poller.knows(now) for poller in self._pollers.values())
        return waiting + (1 if now < self._unknown_until else 0)

    def _forget(self, now: float) -> None:
        for connection, poller in list(self._pollers.items()):
            if _forgotten(poller, now):
                del self._pollers[connection]

    def flush_is_over(self, since: float, now: float) -> bool:
        return now - since >= FLUSH_LIMIT or self.waiting(now) == 0


def _forgotten(poller: Poller, now: float) -> bool:
    if poller.closed_at is not None and now - poller.closed_at >= CLOSED_COUNTS:
        return True
    return now - poller.polled_at > POLLER_MEMORY
