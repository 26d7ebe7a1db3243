"""Notices that a prefill rank died while rooms wait for it, and says so to exactly those rooms (the rules are in `losing`).

What ZeroMQ noticed is read off the connection that took the room's request; nothing is sent to the peer for it. A look costs
one connect and a greeting, bounded, on threads of its own.
"""

from __future__ import annotations

import concurrent.futures
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.domain.contact import Contact
from workers.messaging.endpoint import Endpoint
from workers.messaging.errors import MessagingError
from workers.messaging.greeting import greet
from workers.messaging.outbox import Outbox
from workers.transfer import losing, receiving
from workers.transfer.losing import Doubt
from workers.transfer.receiving import Failure

if TYPE_CHECKING:
    from workers.transfer.receiver import Receiver

log = logging.getLogger(__name__)

THREADS = 4
LOOK_SECONDS = 1.0


@dataclass(slots=True)
class _Case:
    """One connection that ended, and the rooms that had been asked for on it. `line`: the one that took its place."""

    to: Endpoint
    doubt: Doubt
    rooms: dict[str, Receiver] = field(default_factory=dict)
    line: int = 0
    is_busy: bool = False

    def concerned(self) -> list[tuple[int, Receiver]]:
        """The rooms that still wait for it, and the rank that it is to them."""
        found = ((receiver.rank_at(self.to), receiver) for receiver in list(self.rooms.values()))
        return [(rank, receiver) for rank, receiver in found if rank is not None]


class Watch:
    """Belongs to a `DecodeSide`: `tick` is called several times a second, by one thread."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._cases: dict[tuple[Endpoint, int], _Case] = {}
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="peer watch")

    def tick(self, receivers: Iterable[Receiver], *, now: float) -> None:
        """Look at the connections of these rooms, and go on with what is in doubt. Waits for nothing."""
        self._find(receivers, now)
        for key, case in list(self._cases.items()):
            concerned = case.concerned()
            for rank, receiver in concerned:
                if case.doubt.is_gone:
                    _lose(receiver, losing.gone(rank, case.to))
                elif case.line:
                    # It is there: the next time that it hangs up must be noticed too.
                    receiver.lines[case.to] = case.line
            if case.is_busy:
                continue
            if case.doubt.is_over or not concerned:
                del self._cases[key]
            elif case.doubt.due <= now:
                case.is_busy = True
                self._threads.submit(self._go_on, case)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _find(self, receivers: Iterable[Receiver], now: float) -> None:
        """Connections that ended under rooms that wait."""
        is_open: dict[tuple[Endpoint, int], bool] = {}
        for receiver in receivers:
            for source in receiver.awaited:
                line = receiver.lines.get(source.endpoint)
                if line is None:
                    continue
                key = (source.endpoint, line)
                if key not in is_open:
                    is_open[key] = key not in self._cases and self._outbox.is_open(*key)
                if not is_open[key]:
                    case = self._cases.setdefault(key, _Case(source.endpoint, Doubt(due=now)))
                    case.rooms[receiver.state.attempt] = receiver

    def _go_on(self, case: _Case) -> None:
        try:
            if case.doubt.is_back:
                self._ask(case)
            else:
                self._look(case)
        except Exception:
            log.exception("whether %s is gone could not be found out", case.to)
            case.doubt = losing.ask(case.doubt, now=time.monotonic())
        finally:
            case.is_busy = False

    def _look(self, case: _Case) -> None:
        contact = greet(case.to, timeout=LOOK_SECONDS)
        if contact is Contact.UP:
            try:
                case.line = self._outbox.connect(case.to)
            except MessagingError:
                contact = Contact.SILENT
        case.doubt = losing.look(case.doubt, contact, now=time.monotonic())

    def _ask(self, case: _Case) -> None:
        for rank, receiver in case.concerned():
            if receiver.replaced is not None and (why := receiver.replaced()):
                _lose(receiver, losing.restarted(rank, case.to, why))
        case.doubt = losing.ask(case.doubt, now=time.monotonic())


def _lose(receiver: Receiver, sentence: str) -> None:
    receiver.change(lambda state: receiving.fail(state, Failure.LOST, sentence))
