"""What is said on a socket: JSON objects, numbered one after another.

- `hello` {ledger, revision, instance, who, beat_seconds}: first of all; where the ledger stands.
- `snapshot` {ledger, to, cursor, part, parts, why, state}: begin anew with this. Sections of several parts are merged.
- `events` {ledger, from, to, cursor, events}: what happened after revision `from` up to `to`. `from` is the `to` of the
  message before; where it is not, something was lost and the client connects again.
- `beat` {ledger, from, to, cursor, away}: nothing (else) that concerns this socket happened up to `to`. It comes at least
  every `beat_seconds`; `away`: the database does not answer at the moment, so that what is known may be old.

`cursor` is what a client gives as `after` when it connects again. `seq` counts the messages of a socket from 1.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import msgspec

from controlplane.ledger.position import Position
from controlplane.ledger.tail import Cursor, EventRow
from controlplane.queries.events import sentence

from .loops import one_per_loop
from .snapshots import Picture
from .topic import Topic

BEAT_SECONDS = 15.0
KEEP_ENCODED = 8192


class Pen:
    """Writes the messages of one socket, and remembers what it has told."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._seq = 0
        self._told = 0

    def hello(self, head: Cursor, *, who: str, told: int) -> str:
        self._told = told
        return self._written(
            "hello",
            ledger=head.ledger_id,
            revision=head.revision,
            instance=self._topic.instance or None,
            who=who,
            beat_seconds=BEAT_SECONDS,
        )

    def snapshot(self, picture: Picture, *, why: str) -> Iterator[str]:
        for number, part in enumerate(picture.parts, 1):
            yield self._written(
                "snapshot",
                ledger=picture.position.ledger_id,
                to=picture.position.revision,
                cursor=str(picture.position),
                part=number,
                parts=len(picture.parts),
                why=why,
                state=msgspec.Raw(part),
            )
        self._told = picture.position.revision

    def events(self, upto: Position, events: list[bytes]) -> str:
        return self._step("events", upto, events=[msgspec.Raw(event) for event in events])

    def beat(self, upto: Position, *, away: bool) -> str:
        return self._step("beat", upto, away=away)

    def _step(self, kind: str, upto: Position, **more: Any) -> str:
        before, self._told = self._told, upto.revision
        return self._written(
            kind, ledger=upto.ledger_id, **{"from": before}, to=upto.revision, cursor=str(upto), **more
        )

    def _written(self, kind: str, **fields: Any) -> str:
        self._seq += 1
        return msgspec.json.encode({"type": kind, "seq": self._seq, **fields}).decode()


class Encoder:
    """Events as JSON, each encoded once for all sockets."""

    def __init__(self) -> None:
        self._encoded: dict[tuple[int, float], bytes] = {}

    def encode(self, event: EventRow) -> bytes:
        # Two histories may have the same revision; not at the same time.
        key = event.revision, event.at
        found = self._encoded.get(key)
        if found is None:
            if len(self._encoded) >= KEEP_ENCODED:
                self._encoded.clear()
            found = self._encoded[key] = msgspec.json.encode(document(event))
        return found


encoder = one_per_loop(Encoder)


def document(event: EventRow) -> dict[str, Any]:
    """An event as the API shows it."""
    at = datetime.datetime.fromtimestamp(event.at, datetime.UTC)
    return {
        "revision": event.revision,
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": event.kind,
        "instance": event.instance,
        "actor": event.actor,
        "reason": event.reason,
        "sentence": sentence(event),
        "data": event.data,
    }
