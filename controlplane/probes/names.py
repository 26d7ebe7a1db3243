"""Look DNS names up without letting a slow resolver hold anything else up, or be taken for a fault of whoever is named."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections import deque

from controlplane.domain.addresses import parse_ip

MAX_ADDRESSES = 4
MAX_THREADS = 16
NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

_lock = threading.Lock()
_waiting: deque[tuple[str, asyncio.AbstractEventLoop, asyncio.Future[list[str]]]] = deque()
_running = 0


class Unresolved(OSError):
    """There is no address for a name. `unknown`: its name servers say so; otherwise nobody could tell just now."""

    def __init__(self, why: str, *, unknown: bool) -> None:
        super().__init__(why)
        self.unknown = unknown


async def resolve(name: str) -> list[str]:
    """The IP addresses behind `name`, canonical, without repeats, at most MAX_ADDRESSES. Raises Unresolved without any.

    getaddrinfo cannot be interrupted. It runs in daemon threads, at most MAX_THREADS of them, so that an unanswered look-up
    neither fills the loop's executor nor keeps the process from ending. The others wait their turn for as long as the caller
    has patience: bound it in time.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()
    _enqueue(name, loop, answer)
    return await answer


def _enqueue(name: str, loop: asyncio.AbstractEventLoop, answer: asyncio.Future[list[str]]) -> None:
    global _running
    with _lock:
        _waiting.append((name, loop, answer))
        if _running >= MAX_THREADS:
            return
        _running += 1
    try:
        threading.Thread(target=_work, name="look-up", daemon=True).start()
    except RuntimeError as failure:
        # No thread is to be had: whoever waits for one of ours must not wait for ever.
        with _lock:
            _running -= 1
        if not answer.done():
            answer.set_exception(Unresolved(str(failure), unknown=False))


def _forget() -> None:
    """In a child of ours nobody looks anything up yet."""
    global _lock, _running
    _lock, _running = threading.Lock(), 0
    _waiting.clear()


os.register_at_fork(after_in_child=_forget)


def _work() -> None:
    """One look-up after the other, until nobody waits."""
    global _running
    while True:
        with _lock:
            if not _waiting:
                _running -= 1
                return
            name, loop, answer = _waiting.popleft()
        if answer.done():  # given up meanwhile
            continue
        found = _look_up(name)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(_settle, answer, found)


def _settle(answer: asyncio.Future[list[str]], found: list[str] | Unresolved) -> None:
    if answer.done():  # cancelled meanwhile
        return
    if isinstance(found, Unresolved):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _look_up(name: str) -> list[str] | Unresolved:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as failure:
        return Unresolved(str(failure), unknown=failure.errno in NO_SUCH_NAME)
    except UnicodeError as failure:  # no name at all: a label is too long
        return Unresolved(str(failure), unknown=True)
    except Exception as failure:
        return Unresolved(str(failure), unknown=False)
    addresses = (parse_ip(str(entry[4][0]).partition("%")[0]) for entry in found)
    usable = list(dict.fromkeys(str(address) for address in addresses if address))[:MAX_ADDRESSES]
    return usable or Unresolved("no address", unknown=True)
