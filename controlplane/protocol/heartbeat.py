"""Heartbeats of worker processes that run our SDK or plugin: our own small wire beside SGLang's."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from controlplane.domain.errors import Refused
from controlplane.domain.topology import MAX_SLOTS, Slot

from .reading import decoded, short_text
from .replies import PLAIN_JSON, Reply

MAX_LEASE_SECONDS = 600.0


class Body(msgspec.Struct):
    worker: str
    slots: list[tuple[int, int, int, int]] = []
    generation: str | None = None
    lease_seconds: float = 15.0


BODY = msgspec.json.Decoder(Body)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One worker process says it lives, and which slots it holds. The lease is in seconds."""

    worker: str
    slots: tuple[Slot, ...]
    token: str | None
    lease_seconds: float


def read(body: bytes) -> Heartbeat:
    b: Body = decoded(BODY, body, "POST /pd/v1/heartbeats")
    worker = short_text(b.worker, "worker", 128)
    if not worker:
        raise Refused("worker is empty", code="malformed")
    if not 1 <= b.lease_seconds <= MAX_LEASE_SECONDS:
        raise Refused(f"lease_seconds must be between 1 and {MAX_LEASE_SECONDS:.0f}", code="malformed")
    if len(b.slots) > MAX_SLOTS:
        raise Refused(f"slots has {len(b.slots)} entries; at most {MAX_SLOTS} are allowed", code="malformed")
    return Heartbeat(
        worker, tuple(Slot(*s) for s in b.slots), short_text(b.generation, "generation", 128), b.lease_seconds
    )


def answer(directives: list[dict[str, object]], launch: int | None, intent: str = "") -> Reply:
    """What the worker should do (`register`, `drain`), which launch the directory serves, and what operators want of the
    instance; blank: that is not known."""
    said: dict[str, object] = {"directives": directives, "launch": launch}
    return Reply(200, msgspec.json.encode(said | {"intent": intent} if intent else said), PLAIN_JSON)
