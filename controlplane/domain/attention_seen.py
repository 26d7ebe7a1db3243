"""What is looked at in an instance to find what needs a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .attention import Place
from .engine_health import State
from .routable import Fact, Verdict

STALLED_SECONDS = 60.0
"""How long after its newest rank a launch that is not whole counts as stuck: half of the time in which ranks may join."""

SETTLED_SECONDS = 10.0
"""Probes and flushes take this long without anybody having to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSeen:
    """A launch that has not ended. `missing` names some of its empty slots; `newest_at`: when its last rank came."""

    number: int
    registered: int
    size: int
    missing: str = ""
    newest_at: float | None = None
    claims: int = 0

    @property
    def full(self) -> bool:
        return self.registered >= self.size

    def idle(self, now: float) -> float:
        return 0.0 if self.newest_at is None else now - self.newest_at


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSeen:
    """What its own HTTP server is like, and since when. `withheld_since`: it fails, and that is not held against it. `load`: what
    it told last; in it `still` DP ranks that compute no more while others do, `still_dp` the first of these."""

    state: State
    sentence: str
    since: float | None = None
    why: str = ""
    withheld_since: float | None = None
    fails: int = 0
    load: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSeen:
    """`observed`: one word, of domain.observed. `groups`: verdicts of its DP groups by number. `gone`: who left it lately,
    and why; `hosts`: where those were, if that is known of all. `missing` in words stands in its launches."""

    name: str
    role: str
    observed: str
    verdict: Verdict
    created_at: float
    groups: tuple[tuple[int, Verdict], ...] = ()
    current: LaunchSeen | None = None
    candidate: LaunchSeen | None = None
    unanswered: int = 0
    troubled_at: float | None = None
    owing_since: float | None = None
    owing_why: str = ""
    sessions: int = 0
    conflicts: int = 0
    gone: str = ""
    hosts: tuple[str, ...] = ()
    engine: EngineSeen | None = None

    @property
    def kept_back_by_engine(self) -> bool:
        """Everything else is well with it: its engine is what takes no requests."""
        return not self.verdict.routable and self.verdict.reasons[0].code.startswith("engine_")

    @property
    def wanted(self) -> bool:
        """Operators want it to take requests: it is enabled, and not each of its DP groups is kept back by itself."""
        codes = {reason.code for reason in self.verdict.reasons}
        # Without a launch there may be groups that nobody spoke of.
        kept_back = self.current is not None and all(_unwanted(verdict) for _, verdict in self.groups)
        return "enabled" in codes or ("some_groups" in codes and not kept_back)

    @property
    def at(self) -> Place:
        return Place("instance", self.name)


def _unwanted(verdict: Verdict) -> bool:
    return any(reason.blocks and reason.fact is Fact.INTENT for reason in verdict.reasons)
