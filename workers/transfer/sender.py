"""One room at a prefill rank, for the one who computes its KV."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from controlplane.domain.errors import Refused
from workers.messaging.replies import Poll
from workers.messaging.requests import KvRequest, Registration
from workers.transfer import sending
from workers.transfer.blocks import joined, pieces
from workers.transfer.checksums import checksum, sent_ranges
from workers.transfer.errors import TransferError, TransferFailed
from workers.transfer.metadata import Number
from workers.transfer.slicing import Target, page_blocks

if TYPE_CHECKING:
    from workers.transfer.prefill import PrefillSide

log = logging.getLogger(__name__)

PIECE_BYTES = 32 * 2**20
"""Of one call of the engine, which has 8 s: a decode that takes less than 4 MB a second is given up, and an aborted room stops
soon. A chunk of a long prompt has gigabytes, and shares its network with other rooms."""


class Sender:
    """`wait_until_asked`, then `send` chunk by chunk and `finish`; `wait` for the end, and `close`, always."""

    def __init__(self, side: PrefillSide, room: int) -> None:
        self._side, self.room = side, room
        self._chunks: deque[tuple[int, ...]] = deque()
        self._pages: list[int] = []
        self._slot: int | None = None
        self._last = self._running = False
        self._lock = threading.Lock()
        self._final: sending.Sending | None = None
        # The life of our engine in which a batch ended in doubt: until it is reset it may still read our pages.
        self._doubt: int | None = None

    def poll(self) -> Poll:
        return (self._final or self._side.state(self.room)).poll

    @property
    def reason(self) -> str:
        """Why it failed; empty while it did not."""
        return (self._final or self._side.state(self.room)).reason

    @property
    def prefix_len(self) -> int:
        """Tokens of KV that the decode has already and does not want (`decode_prefix_len`)."""
        return max((request.decode_prefix_len for request in self._side.state(self.room).asked.values()), default=0)

    def wait_until_asked(self, timeout: float) -> Poll:
        """Until every decode rank of the room has asked, or it failed, or for `timeout` seconds."""
        return self._wait(timeout, Poll.WAITING_FOR_INPUT)

    def wait(self, timeout: float) -> Poll:
        """Until it succeeded or failed, or for `timeout` seconds. Each batch ends within the bound of the engine."""
        return self._wait(timeout, Poll.SUCCESS)

    def send(self, pages: Sequence[int]) -> None:
        """The KV in these pages of `side.pages` is computed: write it. Pages of a room go in the order of its tokens, and belong
        to the sender from here on. Raises TransferError before every decode rank has asked."""
        self._add(tuple(pages))

    def finish(self, pages: Sequence[int] = (), *, metadata: Mapping[str, Sequence[Number]] | None = None) -> None:
        """The last pages, then the metadata, then the room. Raises NothingFree when no metadata slot is."""
        self._check_asked()
        (slot,) = self._side.slots.take(1)
        self._side.metadata.clear(slot)
        self._side.metadata.write(slot, metadata or {})
        self._side.metadata.set_room(slot, self.room)
        self._slot = slot
        self._add(tuple(pages), last=True)

    def abort(self, reason: str = "the prefill gave the request up") -> None:
        self._side.fail(self.room, reason)

    def close(self) -> Poll:
        """Fail what has not ended, and give pages and slot back, through the quarantine while the engine may read them."""
        if self._final is not None:
            return self._final.poll
        self.abort("the prefill rank closed the room")
        side = self._side
        with self._lock:
            self._chunks.clear()
        with side.changed:
            if self._final is not None:
                return self._final.poll
            self._final = state = side.state(self.room)
            slots = [] if self._slot is None else [self._slot]
            if state.running or self._is_in_doubt():
                side.pages.hold(self, self._pages)
                side.slots.hold(self, slots)
            else:
                side.pages.give_back(self._pages)
                side.slots.give_back(slots)
            side.forget(self.room)
        return state.poll

    def _wait(self, timeout: float, enough: Poll) -> Poll:
        end = time.monotonic() + timeout
        with self._side.changed:
            while (poll := self.poll()) is not Poll.FAILED and poll < enough and (left := end - time.monotonic()) > 0:
                self._side.changed.wait(min(left, 0.5))
        return poll

    def _is_in_doubt(self) -> bool:
        return self._doubt is not None and self._doubt == self._side.life

    def _check_asked(self) -> None:
        if self.poll() is Poll.BOOTSTRAPPING:
            raise TransferError(f"not every decode rank of room {self.room} has asked yet: wait_until_asked first")

    def _add(self, pages: tuple[int, ...], *, last: bool = False) -> None:
        self._check_asked()
        with self._lock:
            if self._last:
                raise TransferError(f"room {self.room} was finished already")
            self._pages += pages
            self._chunks.append(pages)
            self._last = last
            if not self._running:
                self._running = True
                self._side.submit(self._work)

    def _work(self) -> None:
        """Chunks of one room go one after the other; rooms beside each other."""
        while True:
            with self._lock:
                if not self._chunks:
                    self._running = False
                    return
                pages = self._chunks.popleft()
                last = self._last and not self._chunks
            self._chunk(pages, last)

    def _chunk(self, pages: tuple[int, ...], last: bool) -> None:
        side = self._side
        with side.changed:
            if self._final is not None or side.state(self.room).is_over:
                return
            first = side.state(self.room).sent
            state = side.change(self.room, lambda state: sending.begin(state, len(pages)))
        settled, sums = True, {}
        try:
            for request in state.targets:
                self._write(request, pages, first, last)
                if last and side.checksums:
                    sums[request.session] = self._checksums(request)
        except TransferFailed as why:
            settled = why.settled
            life = side.life
            if not side.revive():
                side.rest(request.session, str(why))
            self._doubt = None if settled else life
            side.fail(self.room, str(why))
        except (TransferError, Refused) as why:
            side.fail(self.room, str(why))
        except Exception as why:
            log.exception("the transfer of room %d failed", self.room)
            settled, self._doubt = False, side.life
            side.fail(self.room, f"the transfer failed: {why!r}")
        with side.changed:
            state = side.change(self.room, lambda state: sending.end(state, settled=settled))
            succeeds = last and not state.is_over
            if succeeds:
                state = side.change(self.room, sending.succeed)
            side.acknowledge(self.room)
            if self._final is not None and not state.running and not self._is_in_doubt():
                side.pages.settle(self)
                side.slots.settle(self)
            if self._final is not None:
                side.forget(self.room)
        if succeeds:
            side.tell(state, checksums=sums)

    def _write(self, request: KvRequest, pages: tuple[int, ...], first: int, last: bool) -> None:
        side = self._side
        known = side.registration(request.session)
        end, kept = first + len(pages), len(request.pages)
        if end > kept:
            raise TransferError(f"the decode rank keeps {kept} pages, {end} are to be sent")
        if last and end < kept:
            # What it would read in the others is of an earlier request.
            raise TransferError(
                f"the decode rank keeps {kept} pages, and only {end} come: their prompts differ; nothing of it may be used"
            )
        blocks = page_blocks(side.share, side.pointers, _target(known), pages, request.pages[first:end])
        for piece in pieces(blocks, most_bytes=PIECE_BYTES):
            self._check_time()
            side.engine.write(request.session, piece)
            side.works(request.session)
        self._check_time()
        if last and self._slot is not None:
            rest, room = side.metadata.blocks(self._slot, known.aux_pointers, request.aux_index)
            # One batch has no order, so what must come last is a call of its own.
            side.engine.write(request.session, joined(rest))
            side.engine.write(request.session, room)

    def _check_time(self) -> None:
        """Raises TransferError when there is no use in going on."""
        state = self._side.state(self.room)
        if state.is_over or time.monotonic() > state.deadline:
            raise TransferError(f"the KV of room {self.room} was not sent in time")

    def _checksums(self, request: KvRequest) -> tuple[int, ...]:
        target = _target(self._side.registration(request.session))
        return tuple(checksum(sent_ranges(self._side.share, self._side.pointers, target, page)) for page in self._pages)


def _target(known: Registration) -> Target:
    return Target(
        tp_rank=known.tp_rank,
        tp_size=known.tp_size,
        kv_pointers=known.kv_pointers,
        kv_item_len=known.kv_item_len,
        kv_item_lens=known.kv_item_lens,
        kv_layer_ids=known.kv_layer_ids,
    )
