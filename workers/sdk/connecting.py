"""A connection to a place: its name is looked up once for all who wait for it, and addresses of both families are raced.

The event loop's own look-ups share a few threads, and each is joined before a process may end: a name server that drops
packets would hold up the names that others ask for, and the end. Here each name has a thread of its own, which nobody joins.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from controlplane.domain.addresses import parse_ip

from .line import Line
from .places import Place

MOST_LOOKUPS = 64
RACE_SECONDS = 0.25
"""The next address is tried beside after so long (RFC 8305, connection attempt delay)."""


class Connector:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._asked: dict[str, asyncio.Future[list[str]]] = {}

    async def connect(self, place: Place, tls: ssl.SSLContext | None) -> Line:
        """Raises OSError: ConnectionRefusedError, socket.gaierror, ssl.SSLError. Ends with its caller, not before."""
        addresses = [place.host] if parse_ip(place.host) is not None else await self._look_up(place.host)
        if len(addresses) == 1:
            return await _line_to(addresses[0], place, tls)
        return await _first(addresses, place, tls)

    async def _look_up(self, name: str) -> list[str]:
        """Whoever gives up leaves the look-up to the others, and to those who come later."""
        asked = self._asked.get(name)
        if asked is None:
            if len(self._asked) >= MOST_LOOKUPS:
                raise OSError(f"{MOST_LOOKUPS} other names are being looked up")
            loop = asyncio.get_running_loop()
            asked = self._asked[name] = loop.create_future()
            try:
                threading.Thread(target=self._work, args=(loop, name), name="pd-lookup", daemon=True).start()
            except RuntimeError:
                del self._asked[name]
                raise OSError("there is no thread to look its name up") from None
        return await asyncio.shield(asked)

    def _work(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        found: list[str] | OSError
        try:
            found = _by_turns([entry[4] for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)])
        except OSError as problem:
            found = problem
        except UnicodeError:
            found = OSError("its name is none that can be looked up")
        # The loop may have been closed meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._told, name, found)

    def _told(self, name: str, found: list[str] | OSError) -> None:
        asked = self._asked.pop(name)
        if asked.done():
            return
        if isinstance(found, OSError):
            asked.set_exception(found)
            # Everybody may have given up by now.
            asked.exception()
        else:
            asked.set_result(found)


def _by_turns(found: Sequence[tuple[Any, ...]]) -> list[str]:
    """The addresses in the system's order, the families by turns.

    >>> _by_turns([("fd00::1", 0, 0, 0), ("fd00::2", 0, 0, 0), ("10.0.0.1", 0), ("fe80::1", 0, 0, 3)])
    ['fd00::1', '10.0.0.1', 'fd00::2', 'fe80::1%3']
    """
    texts = [f"{at[0]}%{at[3]}" if len(at) > 3 and at[3] and "%" not in at[0] else str(at[0]) for at in found]
    distinct = list(dict.fromkeys(texts))
    six, four = [text for text in distinct if ":" in text], [text for text in distinct if ":" not in text]
    first, second = (six, four) if distinct and ":" in distinct[0] else (four, six)
    both = [text for pair in zip(first, second, strict=False) for text in pair]
    return both + first[len(second) :] + second[len(first) :]


async def _line_to(address: str, place: Place, tls: ssl.SSLContext | None) -> Line:
    name = place.host if tls is not None else None
    loop = asyncio.get_running_loop()
    _, line = await loop.create_connection(Line, address, place.port, ssl=tls, server_hostname=name)
    return line


async def _first(addresses: list[str], place: Place, tls: ssl.SSLContext | None) -> Line:
    """Whichever answers first; when none does, what was wrong with the first."""
    waiting, tries, problems = list(addresses), set[asyncio.Task[Line]](), list[BaseException]()
    try:
        while waiting or tries:
            if waiting:
                tries.add(asyncio.create_task(_line_to(waiting.pop(0), place, tls)))
            pause = RACE_SECONDS if waiting else None
            done, tries = await asyncio.wait(tries, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            lines = [task.result() for task in done if task.exception() is None]
            for line in lines[1:]:
                line.close()
            if lines:
                return lines[0]
            problems += [problem for task in done if (problem := task.exception()) is not None]
        raise problems[0]
    finally:
        for task in tries:
            task.cancel()
            # One may have come through just as its caller gave up.
            task.add_done_callback(_hang_up)


def _hang_up(task: asyncio.Task[Line]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
