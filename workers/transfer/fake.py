"""SGLang's fake backend: nothing is moved, and everything succeeds at once. For warm-up requests and tests of everything else.

Source: `FakeKVSender` and `FakeKVReceiver` in sglang/srt/disaggregation/fake/conn.py; `FAKE_BOOTSTRAP_HOST` in
sglang/srt/disaggregation/utils.py (0.5.23): a request with that bootstrap host takes this way, whatever the backend.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.messaging.replies import Poll
from workers.transfer.blocks import Block
from workers.transfer.engine import CALL_SECONDS, PROBE_SECONDS
from workers.transfer.errors import EngineLost
from workers.transfer.memory import Region, Regions

FAKE_BOOTSTRAP_HOST = "2.2.2.2"
WAITING_SECONDS = 300.0
"""SGLANG_DISAGGREGATION_WAITING_TIMEOUT."""


class FakeEngine:
    """A `TransferEngine` that checks what it is asked for, and leaves all memory as it is."""

    kind = "fake"
    session = "127.0.0.1:1"

    def __init__(self) -> None:
        self._regions = Regions()
        self.alive = True

    def register(self, region: Region) -> int:
        self._regions.add(region)
        return region.address

    def base(self, region: Region) -> int:
        return self._regions.base(region)

    def unregister(self, region: Region) -> None:
        self._regions.drop(region)

    def write(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        if not self.alive:
            raise EngineLost("the fake engine is closed", settled=True)
        for local, _, length in blocks:
            self._regions.translate(local, length)

    def read(self, session: str, blocks: Sequence[Block], *, timeout: float = CALL_SECONDS) -> None:
        self.write(session, blocks)

    def probe(self, session: str, *, timeout: float = PROBE_SECONDS) -> bool:
        return True

    def reset(self) -> str:
        self.alive = True
        return self.session

    def close(self) -> None:
        self.alive = False


class FakeSender:
    """A prefill's end: waits for its input as if the decode had asked, and succeeds with the first chunk.

    `now` is the caller's monotonic clock: a chunk that never comes fails the room `waiting_seconds` after the first poll that
    follows `init`.
    """

    def __init__(self, room: int, *, waiting_seconds: float = WAITING_SECONDS) -> None:
        self.room, self._waiting_seconds = room, waiting_seconds
        self._inited = self._sent = False
        self._since: float | None = None
        self._ended: Poll | None = None

    def init(self) -> None:
        self._inited = True

    def send(self, pages: Sequence[int]) -> None:
        self._sent = True

    def finish(self, pages: Sequence[int] = ()) -> None:
        self._sent = True

    def poll(self, *, now: float) -> Poll:
        """
        >>> sender = FakeSender(7)
        >>> before = sender.poll(now=0.0); sender.send([1]); before, sender.poll(now=0.0)
        (<Poll.WAITING_FOR_INPUT: 2>, <Poll.SUCCESS: 4>)
        """
        if self._ended is None and self._sent:
            self._ended = Poll.SUCCESS
        if self._ended is None and self._inited:
            self._since = now if self._since is None else self._since
            if now - self._since >= self._waiting_seconds:
                self._ended = Poll.FAILED
        return Poll.WAITING_FOR_INPUT if self._ended is None else self._ended

    def abort(self) -> None:
        self._ended = Poll.FAILED


class FakeReceiver:
    """A decode's end: succeeds as soon as it has said where the KV would go.

    >>> receiver = FakeReceiver(7)
    >>> told = [receiver.poll()]; receiver.init(); told += [receiver.poll()]; receiver.send_metadata([1])
    >>> [poll.name for poll in (*told, receiver.poll())]
    ['BOOTSTRAPPING', 'WAITING_FOR_INPUT', 'SUCCESS']
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._inited = self._told = False
        self._ended: Poll | None = None

    def init(self) -> None:
        self._inited = True

    def send_metadata(self, pages: Sequence[int]) -> None:
        self._told = True

    def poll(self) -> Poll:
        if self._ended is not None:
            return self._ended
        if not self._inited:
            return Poll.BOOTSTRAPPING
        if not self._told:
            return Poll.WAITING_FOR_INPUT
        self._ended = Poll.SUCCESS
        return self._ended

    def abort(self) -> None:
        """Nobody holds its pages, so they are free at once."""
        self._ended = Poll.FAILED
