"""One rank that others pull from: its memory registered with an engine, its dictionary published, and kept so."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import msgspec

from workers.sdk import Client, Disagreement, NotFound, Patience
from workers.sdk.backoff import Backoff
from workers.sdk.engine_info import Tensor
from workers.transfer.engine import TransferEngine
from workers.transfer.errors import BadBlocks
from workers.transfer.layout import Place as Shard
from workers.transfer.memory import Region, Segment

from .errors import WeightsError
from .holding import Holding
from .manifest import MAX_BYTES, Manifest, Origin, Promise, entries, world_rank

LOOK = Patience(total=5.0, each=5.0, stall=3.0)


class Seed:
    """The weights must not change while it lives: who pulls them would find other bytes than were promised.

    `chain`: where they were pulled from; `promises`: what a pull proved, so that nothing is summed up twice. The holding and
    the engine stay the caller's to close, after this.
    """

    def __init__(
        self,
        holding: Holding,
        shard: Shard,
        engine: TransferEngine,
        *,
        chain: tuple[Origin, ...] = (),
        promises: Mapping[str, Promise] | None = None,
    ) -> None:
        self.rank, self._engine, self._holding = world_rank(shard), engine, holding
        known = promises or {}
        tensors = {
            name: known.get(name) or Promise(each.dtype, each.shape, holding.digest(name))
            for name, each in holding.held.items()
        }
        self.manifest = Manifest(shard.tp_rank, shard.tp_size, shard.pp_rank, shard.pp_size, tensors, chain)
        self._raw = msgspec.json.encode(self.manifest)
        if len(self._raw) > MAX_BYTES:
            raise WeightsError(f"the manifest has {len(self._raw)} bytes; at most {MAX_BYTES} are served")
        self._book = Segment(len(self._raw))
        with self._book.view() as view:
            view[:] = self._raw
        self._lock = threading.Lock()
        self._closed = False
        for region in (*holding.regions, self._book):
            registered(engine, region)

    @property
    def session(self) -> str:
        return self._engine.session

    @property
    def bytes(self) -> int:
        return self._holding.bytes

    def dictionary(self) -> dict[str, Tensor]:
        """What is published: SGLang's `{name: [address, elements, bytes of each]}`, and what points to the manifest."""
        told: dict[str, Tensor] = {}
        for each in self._holding.held.values():
            address = remote(self._engine, self._holding.regions, each.address) if each.bytes else 0
            told[each.name] = (address, each.numel, each.element_size)
        # Ours first: who wants to know where the weights came from need not read the names of all tensors.
        return entries(self.manifest, self._raw, self._engine.base(self._book)) | told

    def publish(self, client: Client, *, within: float = 60.0) -> None:
        """Until it is published. While the session of an earlier start still counts as living, it is tried again: the control
        plane finds out in some seconds. Raises the last WorkerError: Disagreement when somebody else really has the rank."""
        end = time.monotonic() + within
        pauses = Backoff(0.2, 2.0).pauses()
        with self._lock:
            while True:
                left = max(0.1, end - time.monotonic())
                try:
                    return client.publish_weights(self.rank, self.session, self.dictionary(), within=left)
                except Disagreement:
                    if time.monotonic() + (pause := next(pauses)) >= end:
                        raise
                    time.sleep(pause)

    def tend(self, client: Client, *, within: float = 60.0) -> bool:
        """Look after it, now and then: an engine whose process was lost is started anew, and what nobody serves any more is
        published again. -> whether there was something to do. Raises WorkerError."""
        if self._closed:
            return False
        if not self._engine.alive:
            self._engine.reset()
        else:
            try:
                if client.fetch_weights(self.rank, patience=LOOK).session_id == self.session:
                    return False
            except NotFound:
                pass
        self.publish(client, within=within)
        return True

    def close(self) -> None:
        """Serve no more. There is no word on the wire that takes a publication back: it ends when nobody answers at its
        session, so close the engine too."""
        if self._closed:
            return
        self._closed = True
        if self._engine.alive:
            for region in (*self._holding.regions, self._book):
                self._engine.unregister(region)
        self._book.close()


def registered(engine: TransferEngine, region: Region) -> None:
    """Register it unless it is: a follower's memory was registered to be pulled into."""
    try:
        engine.base(region)
    except BadBlocks:
        engine.register(region)


def remote(engine: TransferEngine, regions: list[Region], address: int) -> int:
    """The number by which peers name an address of this process."""
    for region in regions:
        if region.address <= address < region.address + region.length:
            return engine.base(region) + address - region.address
    raise BadBlocks(f"{address:#x} is not within registered memory")
