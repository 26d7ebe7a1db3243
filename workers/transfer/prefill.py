"""The prefill side: takes the requests of decode ranks, writes KV, then metadata, then the room, and says how it ended.

Source: the prefill half of `MooncakeKVManager` and `CommonKVSender` (sglang/srt/disaggregation, 0.5.23).
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from workers.messaging.inbox import Inbox, Listener
from workers.messaging.replies import Poll, Status
from workers.messaging.requests import Abort, KvRequest, Registration, read_request
from workers.transfer import sending
from workers.transfer.courier import Courier, Letter
from workers.transfer.engine import TransferEngine
from workers.transfer.errors import RoomTaken, TransferError
from workers.transfer.layout import Share
from workers.transfer.memory import Region
from workers.transfer.metadata import MetadataSlots
from workers.transfer.sender import Sender
from workers.transfer.sending import Ended, Sending
from workers.transfer.stock import Stock

log = logging.getLogger(__name__)

MAX_SESSIONS = 4096
MAX_EARLY_ROOMS = MAX_ENDED_ROOMS = 65_536
EARLY_SECONDS = 300.0
"""How long a room that only a decode spoke of is remembered: as long as SGLang's decode waits."""
ABORTED_SECONDS = 30.0
"""How long an abort that came before our own request is remembered."""
SESSION_REST_SECONDS = 5.0
"""A session that failed is not tried again before, unless it registers anew."""
THREADS = 8
CLOSE_SECONDS = 2.0


class PrefillSide:
    """One prefill rank. Register `endpoint` as its `rank_ip` and `rank_port`. `kv` holds `pages` pages as `share.pointers` lays
    them out. Threads may share it.

    `checksums`: send a checksum for each page to decode ranks of ours (SGLang's ignore them).
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
        checksums: bool = False,
    ) -> None:
        if kv.length < share.pool_bytes(pages):
            raise TransferError(f"{pages} pages need {share.pool_bytes(pages)} bytes, the KV region has {kv.length}")
        self.engine, self.share, self.metadata, self.checksums = engine, share, metadata, checksums
        self.pages, self.slots = Stock(pages, "KV pages"), Stock(metadata.slots, "metadata slots")
        self.pointers = share.pointers(kv.address, pages)
        self.rank = share.place.unique_rank
        self.life = 0
        """How often the engine was started anew."""
        self.ignored = 0
        """Requests beyond the bounds, and word of rooms that have ended."""
        self._lock = threading.RLock()
        self._revival = threading.Lock()
        self.changed = threading.Condition(self._lock)
        self._sessions: OrderedDict[str, Registration] = OrderedDict()
        self._resting: dict[str, tuple[float, str]] = {}
        self._rooms: dict[int, Sending] = {}
        self._ended: OrderedDict[int, Ended] = OrderedDict()
        self._early = 0
        self._inbox = Inbox(host, port, read_request)
        self.endpoint = self._inbox.endpoint
        self._courier = Courier()
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="kv sender")
        engine.register(kv)
        engine.register(metadata.segment)
        self._listener = Listener(self._inbox, self._hear, self._tick)

    def open(self, room: int, *, timeout: float = 300.0) -> Sender:
        """This rank has the request of `room`. The decode may have asked before; else it has `timeout` seconds to.

        Raises RoomTaken while another sender of the room is not closed.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            known = self._rooms.get(room)
            if known is not None and known.opened:
                raise RoomTaken(f"room {room} is in use on this prefill rank already; a room names one request")
            if known is not None:
                self._early -= 1
            self._rooms[room] = sending.open_room(known or Sending(room=room, deadline=deadline), deadline=deadline)
            return Sender(self, room)

    def close(self) -> None:
        """Fail what is open, tell the decode ranks, stop listening. The engine is the caller's and stays."""
        self._listener.stop()
        with self._lock:
            for room in list(self._rooms):
                self.change(room, lambda state: sending.fail(state, "the prefill rank is shutting down"))
            letters = [letter for state in self._rooms.values() for letter in self._letters(state, {})]
        self._courier.deliver(letters, timeout=CLOSE_SECONDS)
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._courier.close()

    def reset(self) -> str:
        """Start the engine anew when pages wait in quarantine: nothing of ours is read any more. Batches under way fail."""
        session = self.engine.reset()
        with self._lock:
            self.life += 1
            self.pages.settle_all()
            self.slots.settle_all()
        return session

    def revive(self) -> bool:
        """Start the engine anew if it was lost; -> whether it was. Decode ranks need not know, since only we call."""
        with self._revival:
            if self.engine.alive:
                return False
            try:
                self.reset()
            except TransferError:
                log.exception("the transfer engine was lost, and does not start again")
            return True

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    @property
    def early_rooms(self) -> int:
        """Rooms that only a decode spoke of so far."""
        return self._early

    def state(self, room: int) -> Sending:
        return self._rooms[room]

    def change(self, room: int, how: Callable[[Sending], Sending]) -> Sending:
        with self.changed:
            self._rooms[room] = how(self._rooms[room])
            self.changed.notify_all()
            return self._rooms[room]

    def submit(self, task: Callable[[], None]) -> None:
        self._threads.submit(task)

    def registration(self, session: str) -> Registration:
        """Raises TransferError when the session never registered, or failed a moment ago."""
        with self._lock:
            now, (until, why) = time.monotonic(), self._resting.get(session, (0.0, ""))
            if now < until:
                raise TransferError(f"the decode session {session} failed a moment ago: {why}")
            if session not in self._sessions:
                raise TransferError(f"the decode session {session} did not register its memory with this prefill rank")
            if why:
                # One room at a time finds out whether it takes something again.
                self._resting[session] = (now + SESSION_REST_SECONDS, why)
            self._sessions.move_to_end(session)
            return self._sessions[session]

    def rest(self, session: str, why: str) -> None:
        """The session failed: rooms for it fail at once for a while, instead of waiting for its time-out each."""
        with self._lock:
            self._resting[session] = (time.monotonic() + SESSION_REST_SECONDS, why)

    def works(self, session: str) -> None:
        self._resting.pop(session, None)

    def fail(self, room: int, reason: str) -> None:
        """The room failed here; its decode ranks are told once."""
        with self._lock:
            before = self._rooms[room]
            after = self.change(room, lambda state: sending.fail(state, reason))
        if not before.is_over and after.poll is Poll.FAILED:
            self.tell(after)

    def tell(
        self, state: Sending, only: KvRequest | None = None, *, checksums: dict[str, tuple[int, ...]] | None = None
    ) -> None:
        """The status to every decode rank that wants bytes, or to one."""
        asked = state.asked if only is None else {only.session: only}
        self._courier.post(self._letters(replace(state, asked=asked), checksums or {}))

    def _letters(self, state: Sending, checksums: dict[str, tuple[int, ...]]) -> list[Letter]:
        return [
            Letter(
                request.endpoint,
                Status(
                    room=state.room,
                    poll=state.poll,
                    prefill_rank=self.rank,
                    reason=state.reason,
                    attempt=request.attempt,
                    checksums=checksums.get(session, ()),
                ).frames(),
            )
            for session, request in state.asked.items()
            if not request.is_dummy
        ]

    def acknowledge(self, room: int) -> None:
        with self._lock:
            if room in self._rooms:
                self._rooms[room], told = sending.acks(self._rooms[room], self.rank)
                self._courier.post([Letter(to, ack.frames()) for to, ack in told])

    def forget(self, room: int) -> None:
        """The sender is closed: nothing is kept of the room, unless a batch is under way, or its end is not known."""
        with self._lock:
            state = self._rooms[room]
            if state.running:
                self._rooms[room] = replace(state, closed=True)
                return
            del self._rooms[room]
            self._ended[room] = sending.ended(state, self._ended.pop(room, None), now=time.monotonic())
            while len(self._ended) > MAX_ENDED_ROOMS:
                self._ended.popitem(last=False)

    def _hear(self, message: Registration | KvRequest | Abort) -> None:
        if isinstance(message, Registration):
            self._register(message)
        elif isinstance(message, KvRequest):
            self._asked(message)
        else:
            self._aborted(message)

    def _register(self, message: Registration) -> None:
        with self._lock:
            self._sessions[message.session] = message
            self._sessions.move_to_end(message.session)
            self._resting.pop(message.session, None)
            while len(self._sessions) > MAX_SESSIONS:
                self._resting.pop(self._sessions.popitem(last=False)[0], None)

    def _asked(self, message: KvRequest) -> None:
        with self._lock:
            known = self._rooms.get(message.room)
            if known is not None and known.is_over and not known.opened:
                # It was given up before we had it; this is another use of the room.
                self._rooms[message.room] = Sending(room=message.room, deadline=time.monotonic() + EARLY_SECONDS)
            elif known is None:
                ended = self._ended.get(message.room)
                patience = None if ended is None else ended.patience(message, now=time.monotonic())
                late = "" if ended is None or patience is None else ended.reason
                if not self._remember(message.room, EARLY_SECONDS if patience is None else patience, late):
                    return
            state = self.change(message.room, lambda state: sending.ask(state, message))
            if state.late and message.room in self._ended:
                self._ended[message.room] = self._ended[message.room].tell(message.session)
        if state.opened and state.poll is Poll.FAILED:
            # It came too late; let it know at once.
            self.tell(state, message)

    def _aborted(self, message: Abort) -> None:
        with self._lock:
            room = message.room
            known = self._rooms.get(room)
            if known is not None and not sending.is_of_another_attempt(known, message):
                self.change(room, lambda state: sending.abort(state, message))
                self.acknowledge(room)
            elif room in self._ended and self._ended[room].poisoned:
                self.ignored += 1
            elif known is not None or room in self._ended:
                told = sending.acks(sending.abort(Sending(room=room, deadline=0), message), self.rank)[1]
                self._courier.post([Letter(to, ack.frames()) for to, ack in told])
            elif self._remember(room, ABORTED_SECONDS):
                # It is faster than our own request, which then fails at once.
                self.change(room, lambda state: sending.abort(state, message))
                self.acknowledge(room)

    def _remember(self, room: int, seconds: float, late: str = "") -> bool:
        if self._early >= MAX_EARLY_ROOMS:
            self.ignored += 1
            return False
        self._early += 1
        self._rooms[room] = Sending(room=room, deadline=time.monotonic() + seconds, late=late)
        return True

    def _tick(self) -> None:
        now = time.monotonic()
        with self._lock:
            for room, state in list(self._rooms.items()):
                if now < state.deadline or state.running:
                    continue
                if not state.opened:
                    self._early -= 1
                    del self._rooms[room]
                    if state.late and not state.is_over:
                        self.tell(sending.fail(state, state.late))
                elif not state.is_over:
                    self.fail(room, sending.expire(state, now=now).reason)
