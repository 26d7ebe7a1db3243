"""How long launches, outages and drains took, told from the events of the ledger: each once, when it is over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

MOST_OPEN = 50_000
"""What may be under way at once; of what began before the newest so many nothing is told."""

READY, UNHEALTHY, DRAIN = "ready", "unhealthy", "drain"


class Happened(Protocol):
    """An event as the ledger stores it. `at` is in epoch seconds."""

    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def instance(self) -> str: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


class Took(NamedTuple):
    """`what` is READY, UNHEALTHY or DRAIN; `how` a drain ended."""

    what: str
    seconds: float
    how: str = ""


class Durations:
    """Follows the events in their order. What was under way before the first of them is told to `begin`."""

    def __init__(self) -> None:
        self._open: dict[Hashable, float] = {}

    def begin(self, what: str, *key: Hashable, at: float) -> None:
        """(READY, instance, launch number), (UNHEALTHY, instance) or (DRAIN, its id) is under way since `at`."""
        self._open.setdefault((what, *key), at)
        if len(self._open) > MOST_OPEN:
            del self._open[next(iter(self._open))]

    def follow(self, events: Iterable[Happened]) -> list[Took]:
        found = []
        for event in events:
            step = STEPS.get(event.kind)
            took = step(self, event) if step is not None else None
            if took is not None:
                found.append(took)
        return found

    def end(self, what: str, *key: Hashable, at: float, how: str = "") -> Took | None:
        since = self._open.pop((what, *key), None)
        return None if since is None else Took(what, max(0.0, at - since), how)

    def launch_opened(self, event: Happened) -> None:
        self.begin(READY, event.instance, event.data["launch"], at=event.at)

    def launch_completed(self, event: Happened) -> Took | None:
        return self.end(READY, event.instance, event.data["launch"], at=event.at)

    def launch_ended(self, event: Happened) -> None:
        self.end(READY, event.instance, event.data["launch"], at=event.at)

    def launch_promoted(self, event: Happened) -> Took | None:
        if event.data["replaced"] is not None:
            self.end(READY, event.instance, event.data["replaced"], at=event.at)
        # One that is whole when it is promoted may not have been told to be complete before.
        return self.launch_completed(event) if event.data["complete"] else None

    def health_turned(self, event: Happened) -> Took | None:
        if event.data["status"] == 503:
            self.begin(UNHEALTHY, event.instance, at=event.at)
            return None
        took = self.end(UNHEALTHY, event.instance, at=event.at)
        return took if event.data["status"] == 200 else None

    def instance_ended(self, event: Happened) -> None:
        self.end(UNHEALTHY, event.instance, at=event.at)

    def drain_started(self, event: Happened) -> None:
        self.begin(DRAIN, event.data["drain"], at=event.at)

    def drain_progressed(self, event: Happened) -> Took | None:
        if event.data["after"] != "drained":
            return None
        return self.end(DRAIN, event.data["drain"], at=event.at, how="drained")

    def drain_ended(self, event: Happened) -> Took | None:
        # Proven before, and told then; retired without having been looked at once more.
        return self.end(DRAIN, event.data["drain"], at=event.at, how=event.data["result"])


STEPS: Mapping[str, Callable[[Durations, Any], Took | None]] = {
    "launch.opened": Durations.launch_opened,
    "launch.completed": Durations.launch_completed,
    "launch.dropped": Durations.launch_ended,
    "launch.promoted": Durations.launch_promoted,
    "health.turned": Durations.health_turned,
    "instance.retired": Durations.instance_ended,
    "drain.started": Durations.drain_started,
    "drain.progressed": Durations.drain_progressed,
    "drain.ended": Durations.drain_ended,
}
