"""What a worker's keeper concludes from answers: who is registered, who must be again, whether to drain. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import msgspec

from controlplane.domain.topology import Slot
from controlplane.protocol.observed import read_count

PLAIN_NOT_FOUND = "404: Not Found"


class Speaks(enum.StrEnum):
    """Who keeps the directory."""

    UNKNOWN = "unknown"
    CONTROL_PLANE = "control plane"
    SGLANG = "sglang"
    """SGLang's own bootstrap server: it takes no heartbeats, forgets all when it restarts, and counts a repeated
    registration as another rank while it is not complete."""


class Directive(msgspec.Struct):
    """One thing that the answer to a heartbeat says to do; unknown ones are for newer workers."""

    do: str
    slots: list[tuple[int, int, int, int]] = []


class BeatAnswer(msgspec.Struct):
    """`launch` is the number of the launch that the directory serves; None: none yet. `intent`: what operators want of the
    instance; blank: it was not said."""

    directives: list[Directive] = []
    launch: int | None = None
    intent: str = ""

    @property
    def drains(self) -> bool:
        return any(told.do == "drain" for told in self.directives)


BEAT = msgspec.json.Decoder(BeatAnswer)


@dataclass(frozen=True, slots=True)
class Standing:
    """How this worker's ranks stand in the directory, as it knows. `trouble` is the last thing that went wrong, a sentence;
    empty when the last word was good."""

    missing: frozenset[Slot]
    registered: frozenset[Slot] = frozenset()
    draining: bool = False
    launch: int | None = None
    speaks: Speaks = Speaks.UNKNOWN
    trouble: str = ""
    whole_once: bool = False
    """Of SGLang's server: whether it has answered for all ranks since ours registered."""
    counted: int = 0
    """Of SGLang's server: how many registrations it has said it has."""

    @property
    def is_registered(self) -> bool:
        """All ranks of this process are: until then it is not ready, and says so."""
        return not self.missing

    def took(self, slot: Slot) -> Standing:
        """A registration was acknowledged."""
        return replace(self, missing=self.missing - {slot}, registered=self.registered | {slot}, trouble="")

    def lost(self, slots: Iterable[Slot]) -> Standing:
        """These must be registered again."""
        gone = self.registered & frozenset(slots)
        return replace(self, missing=self.missing | gone, registered=self.registered - gone)

    def failed(self, trouble: str) -> Standing:
        return replace(self, trouble=trouble)


def heard(standing: Standing, answer: BeatAnswer) -> Standing:
    """After the answer to a heartbeat.

    >>> before = Standing(frozenset(), frozenset({Slot(0, 0, 0, 0)}))
    >>> after = heard(before, BeatAnswer([Directive("register", [(0, 0, 0, 0)]), Directive("drain")], 3))
    >>> after.is_registered, after.draining, after.launch
    (False, True, 3)
    """
    again = [Slot(*slot) for told in answer.directives if told.do == "register" for slot in told.slots]
    return replace(
        standing.lost(again),
        draining=answer.drains,
        launch=answer.launch,
        speaks=Speaks.CONTROL_PLANE,
        trouble="",
    )


def is_plain(status: int, body: bytes) -> bool:
    """Whether a heartbeat was answered by a server that knows none: SGLang's says 404 as aiohttp does, or 405."""
    return status == 405 or (status == 404 and body.strip() == PLAIN_NOT_FOUND.encode())


def looked(standing: Standing, slot: Slot, own: Collection[str], status: int, said: str, address: str) -> Standing:
    """After looking a slot up at a plain server: `address` is the `ip:port` that it told, `said` its text otherwise.

    Registering again is only right when it has surely forgotten us: it counts calls, not ranks.
    """
    if status == 200 and address in own:
        return replace(standing, whole_once=True, trouble="")
    if status == 200:
        return standing.failed(
            f"{slot} is registered at {address}, which is not this worker: another launch has its place"
        )
    if status == 404:
        # It holds itself for whole, without us.
        return standing.lost([slot])
    count = read_count(said.encode()) if status == 503 else None
    if count is None:
        return standing
    if standing.whole_once or count < max(standing.counted, 1):
        # It restarted: whatever it knew of us is gone.
        return replace(standing.lost(standing.registered), whole_once=False, counted=count)
    return replace(standing, counted=count)
