"""Resolve a rank's DNS name without letting a slow resolver hold anything else up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

from controlplane.domain.addresses import parse_ip

MAX_ADDRESSES = 4
MAX_THREADS = 16
_threads = threading.BoundedSemaphore(MAX_THREADS)


async def resolve(name: str) -> list[str]:
    """The IP addresses behind `name`, canonical, without repeats, at most MAX_ADDRESSES; OSError without any.

    getaddrinfo cannot be interrupted. It runs in a daemon thread, so that an unanswered look-up neither fills
    the loop's executor nor keeps the process from ending; past MAX_THREADS of them the next fails at once.
    """
    if not _threads.acquire(blocking=False):
        raise OSError("too many name look-ups are unanswered")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str], failure: str) -> None:
        if answer.done():  # cancelled meanwhile
            return
        if addresses:
            answer.set_result(addresses)
        else:
            answer.set_exception(OSError(failure))

    def look_up() -> None:
        addresses, failure = _look_up(name)
        _threads.release()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, addresses, failure)

    threading.Thread(target=look_up, name=f"resolve {name[:40]}", daemon=True).start()
    return await answer


def _look_up(name: str) -> tuple[list[str], str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as failure:
        return [], str(failure)
    addresses = (parse_ip(str(entry[4][0]).partition("%")[0]) for entry in found)
    return list(dict.fromkeys(str(address) for address in addresses if address))[:MAX_ADDRESSES], "no address"
