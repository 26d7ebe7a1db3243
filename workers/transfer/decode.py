"""The decode side: asks prefill ranks for the KV of a room, and hands it out only when it is proven to be of that room.

Source: `CommonKVReceiver` and the decode half of `MooncakeKVManager` (sglang/srt/disaggregation, 0.5.23).
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Sequence

from workers.messaging.inbox import Inbox, Listener
from workers.messaging.replies import AbortAck, AuxData, Status, read_reply
from workers.messaging.requests import Registration
from workers.transfer import receiving
from workers.transfer.checksums import checksum, received_ranges
from workers.transfer.courier import Courier, Letter
from workers.transfer.engine import TransferEngine
from workers.transfer.errors import RoomTaken, TransferError
from workers.transfer.layout import Share
from workers.transfer.memory import Region
from workers.transfer.metadata import MetadataSlots
from workers.transfer.receiver import Receiver, Source
from workers.transfer.receiving import Failure, Receiving
from workers.transfer.slicing import Target
from workers.transfer.stock import Stock
from workers.transfer.watching import Watch


class DecodeSide:
    """One decode rank. `kv` holds `pages` pages as `share.pointers` lays them out; both are registered with `engine` here.

    `pages` and `slots` are stocks: take pages from `pages` for a request, `Receiver.close` puts them back. Threads may share it.
    """

    def __init__(
        self,
        *,
        host: str,
        engine: TransferEngine,
        share: Share,
        kv: Region,
        pages: int,
        metadata: MetadataSlots,
        port: int = 0,
    ) -> None:
        self.engine, self.share, self.metadata = engine, share, metadata
        self._kv = kv
        if kv.length < share.pool_bytes(pages):
            raise TransferError(f"{pages} pages need {share.pool_bytes(pages)} bytes, the KV region has {kv.length}")
        self.pages, self.slots = Stock(pages, "KV pages"), Stock(metadata.slots, "metadata slots")
        self.late = 0
        """Messages about rooms that are not open here (any more)."""
        self._generations = itertools.count(1)
        self._lock = threading.RLock()
        self._revival = threading.Lock()
        self.changed = threading.Condition(self._lock)
        self._open: dict[int, Receiver] = {}
        self._held: dict[int, Receiver] = {}
        self._inbox = Inbox(host, port, read_reply)
        self.endpoint = self._inbox.endpoint
        self._courier = Courier()
        self._watch = Watch(self._courier.outbox)
        engine.register(kv)
        engine.register(metadata.segment)
        self._announce()
        self._listener = Listener(self._inbox, self._hear, self._tick)

    def open(
        self,
        room: int,
        sources: Sequence[Source],
        pages: Sequence[int],
        *,
        required_dst_info_num: int = 1,
        answers_needed: int | None = None,
        timeout: float = 300.0,
        state_prefix: int = 0,
        replaced: Callable[[], str] | None = None,
    ) -> Receiver:
        """Ask for a room; returns within 10 s. The receiver fails at once when a source cannot be reached, and within some
        2 s (`Failure.LOST`) when the process of one ends that it waits for: it hung up, and its port refuses. One that is
        merely silent (stopped, or cut off) has `timeout`.

        `pages` were taken from `self.pages` and belong to the receiver from here on. `required_dst_info_num` and
        `answers_needed` come from `controlplane.domain.rankmap`; without the latter every source that is no dummy must answer.
        `timeout`: seconds until the room fails. `replaced` is asked when a source hung up and greets again, on a thread of
        its own: whether another launch is there now, in a sentence, or nothing; within a second or so.
        Raises RoomTaken (the pages stay the caller's) and NothingFree.
        """
        writers = frozenset(source.place.unique_rank for source in sources if not source.is_dummy)
        needed = len(writers) if answers_needed is None else answers_needed
        if not 1 <= needed <= len(writers):
            raise TransferError(f"{needed} answers cannot come from {len(writers)} prefill ranks that send")
        if not self.engine.alive:
            self._revive()
        with self._lock:
            if room in self._open:
                raise RoomTaken(f"room {room} is in use on this decode rank already; a room names one request")
            (slot,) = self.slots.take(1)
            self.metadata.clear(slot)
            deadline = time.monotonic() + timeout
            state = Receiving(
                room=room, attempt=secrets.token_hex(8), writers=writers, answers_needed=needed, deadline=deadline
            )
            receiver = Receiver(self, state, tuple(sources), tuple(pages), slot, replaced)
            self._open[room] = receiver
            opening = self._registration
            # Before anything is sent: from now on somebody may write, whether or not we learn of it.
            receiver.change(receiving.publish)
        delivered = self._courier.deliver(
            [
                Letter(source.endpoint, receiver.request(source, required_dst_info_num, state_prefix).frames(), opening)
                for source in sources
            ]
        )
        receiver.lines = delivered.lines
        if delivered.failed:
            reasons = "; ".join(str(why) for why in delivered.failed.values())
            receiver.not_told(delivered.failed.keys() - delivered.unsure)
            receiver.change(lambda state: receiving.fail(state, Failure.UNREACHABLE, reasons))
            receiver.abort()
        return receiver

    def reset(self) -> None:
        """End every write that may still come, by starting the engine anew: open rooms fail, quarantined pages are free.

        Prefill ranks learn the new session with the next request.
        """
        with self._lock:
            for receiver in list(self._open.values()):
                receiver.change(
                    lambda state: receiving.fail(state, Failure.ENGINE_RESET, "the transfer engine was reset")
                )
        self.engine.reset()
        with self._lock:
            self._announce()
            self._held.clear()
            self.pages.settle_all()
            self.slots.settle_all()
            for receiver in self._open.values():
                receiver.is_cut_off = True

    def _revive(self) -> None:
        """Once for all who notice: a second start would take the engine from the rooms that have begun with the first."""
        with self._revival:
            if not self.engine.alive:
                self.reset()

    def close(self) -> None:
        """Abort what is open, stop listening. The engine is the caller's and stays."""
        for receiver in list(self._open.values()):
            receiver.close()
        self._listener.stop()
        self._watch.close()
        self._courier.close()

    @property
    def open_rooms(self) -> int:
        return len(self._open)

    def next_generation(self) -> int:
        return next(self._generations)

    def send(self, letters: Sequence[Letter]) -> None:
        self._courier.post(letters)

    def damage(self, receiver: Receiver) -> str:
        """What a checksum of a prefill rank contradicts; empty when nothing does, or when none was sent."""
        pointers = self.share.pointers(self._kv.address, self.pages.size)
        place = self.share.place
        target = Target(
            tp_rank=place.tp_rank, tp_size=place.tp_size, kv_pointers=pointers, kv_item_len=self.share.item_len
        )
        shares = {source.place.unique_rank: Share(self.share.shape, source.place) for source in receiver.sources}
        for rank, told in receiver.state.answered.items():
            if told and rank in shares:
                for page, expected in zip(receiver.pages, told, strict=False):
                    if checksum(received_ranges(shares[rank], target, page)) != expected:
                        return f"page {page} is not what prefill rank {rank} sent"
        return ""

    def let_go(self, receiver: Receiver) -> bool:
        """The receiver is closed: its pages and slot are free, or wait until its prefill ranks have acknowledged."""
        with self._lock:
            if self._open.get(receiver.state.room) is receiver:
                del self._open[receiver.state.room]
            if receiver.is_cut_off or receiver.state.is_settled:
                self.pages.give_back(receiver.pages)
                self.slots.give_back([receiver.slot])
                return True
            key = receiver.state.attempt
            self.pages.hold(key, receiver.pages)
            self.slots.hold(key, [receiver.slot])
            self._held[receiver.state.generation or self.next_generation()] = receiver
            return False

    def _announce(self) -> None:
        place = self.share.place
        # Decode TP ranks count on over DP groups in SGLang, which takes them modulo the TP size.
        self._registration = Registration(
            endpoint=self.endpoint,
            session=self.engine.session,
            kv_pointers=self.share.pointers(self.engine.base(self._kv), self.pages.size),
            aux_pointers=self.metadata.pointers(self.engine.base(self.metadata.segment)),
            tp_rank=place.tp_rank,
            tp_size=place.tp_size,
            kv_item_len=self.share.item_len,
            kv_item_lens=(self.share.item_len,) * self.share.buffers,
        ).frames()

    def _hear(self, message: Status | AbortAck | AuxData) -> None:
        with self._lock:
            receiver = self._open.get(message.room)
            if isinstance(message, AuxData):
                if receiver is not None and message.aux_index == receiver.slot:
                    self.metadata.put_row(message.buffer, message.aux_index, message.data)
            elif isinstance(message, AbortAck):
                self._acknowledged(message, receiver)
            else:
                self._status(message, receiver)

    def _status(self, status: Status, receiver: Receiver | None) -> None:
        if receiver is None or (status.attempt and status.attempt != receiver.state.attempt):
            self.late += 1
            # A rank whose room was given up, and that had finished before it heard of it, writes no more either.
            for generation, held in list(self._held.items()):
                if held.state.room == status.room and status.attempt == held.state.attempt:
                    held.change(lambda state: receiving.hear(state, status))
                    self._settle(generation)
            return
        receiver.change(lambda state: receiving.hear(state, status))

    def _acknowledged(self, ack: AbortAck, receiver: Receiver | None) -> None:
        if receiver is not None:
            receiver.change(lambda state: receiving.acknowledge(state, ack))
        held = self._held.get(ack.generation or 0)
        if held is not None and held.state.room == ack.room:
            held.change(lambda state: receiving.acknowledge(state, ack))
            self._settle(ack.generation or 0)

    def _settle(self, generation: int) -> None:
        held = self._held[generation]
        if held.state.is_settled:
            del self._held[generation]
            self.pages.settle(held.state.attempt)
            self.slots.settle(held.state.attempt)

    def _tick(self) -> None:
        now = time.monotonic()
        with self._lock:
            for receiver in list(self._open.values()):
                receiver.change(lambda state: receiving.expire(state, now=now))
            receivers = list(self._open.values())
        self._watch.tick(receivers, now=now)
